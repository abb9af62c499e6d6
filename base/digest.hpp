#pragma once

// Checksums, computed piece by piece, by OpenSSL (base/libcrypto.hpp).

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace ddprun {

enum class DigestKind : std::uint8_t {
  kMd5,  // against accidents only: files with the same MD5 can be made
  kSha256,
};

/// The digest of the bytes added so far.
class Digest {
 public:
  /// Throws std::runtime_error if OpenSSL cannot be loaded; load_libcrypto() tells before.
  explicit Digest(DigestKind kind);
  ~Digest();
  Digest(const Digest&) = delete;
  Digest& operator=(const Digest&) = delete;

  void add(std::span<const std::byte> bytes);
  void add(std::string_view text) { add(std::as_bytes(std::span(text))); }

  /// The digest in lower-case hex digits. REQUIRES: the first call; nothing is added afterwards.
  std::string finish_hex();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// The SHA-256 of the bytes added so far.
class Sha256 : public Digest {
 public:
  Sha256() : Digest(DigestKind::kSha256) {}
};

/// The SHA-256 of `bytes` as 64 lower-case hex digits.
std::string sha256_hex(std::span<const std::byte> bytes);
std::string sha256_hex(std::string_view text);

}  // namespace ddprun
