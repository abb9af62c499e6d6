#pragma once

// HMAC-SHA256 by OpenSSL, which is loaded on demand: a program that starts in milliseconds should
// not load a library that few runs need.

#include "base/error.hpp"

#include <string>
#include <string_view>

namespace ddprun {

class HmacSha256 {
 public:
  /// Loads libcrypto for the lifetime of this process. Fails with kNotFound, naming the package to
  /// install.
  static Result<HmacSha256> load();

  /// The code of `text` under `key`, as 64 lower-case hex digits (RFC 2104).
  std::string operator()(std::string_view key, std::string_view text) const;

 private:
  HmacSha256() = default;

  void* hmac_ = nullptr;    // HMAC()
  void* sha256_ = nullptr;  // EVP_sha256()
};

}  // namespace ddprun
