#pragma once

// SHA-256, a piece at a time. Apart from ddprun::base because it links OpenSSL, which the launcher
// shall not load.

#include <array>
#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace ddprun {

/// The SHA-256 of the bytes added so far.
class Sha256 {
 public:
  using Digest = std::array<std::byte, 32>;

  Sha256();
  ~Sha256();
  Sha256(const Sha256&) = delete;
  Sha256& operator=(const Sha256&) = delete;

  void add(std::span<const std::byte> bytes);
  void add(std::string_view text) { add(std::as_bytes(std::span(text))); }

  /// The digest. REQUIRES: the first call; nothing is added afterwards.
  Digest finish();

  /// finish() as 64 small hex digits.
  std::string finish_hex();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// The SHA-256 of `bytes` as 64 small hex digits.
std::string sha256_hex(std::span<const std::byte> bytes);
std::string sha256_hex(std::string_view text);

}  // namespace ddprun
