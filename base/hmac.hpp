#pragma once

// HMAC-SHA256 by OpenSSL, which is loaded when it is asked for: a program that starts in
// milliseconds has no time for a library that few of its runs need.

#include "base/error.hpp"

#include <string>
#include <string_view>

namespace ddprun {

class HmacSha256 {
 public:
  /// Loads libcrypto, for as long as this process lives. Fails with kNotFound, naming the package
  /// that has it.
  static Result<HmacSha256> load();

  /// The code of `text` under `key`, as 64 small hex digits (RFC 2104).
  std::string operator()(std::string_view key, std::string_view text) const;

 private:
  HmacSha256() = default;

  void* hmac_ = nullptr;    // HMAC()
  void* sha256_ = nullptr;  // EVP_sha256()
};

}  // namespace ddprun
