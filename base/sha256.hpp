#pragma once

#include "base/digest.hpp"

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace ddprun {

/// The SHA-256 of the bytes added so far.
class Sha256 : public Digest {
 public:
  Sha256() : Digest(DigestKind::kSha256) {}
};

/// The SHA-256 of `bytes` as 64 lower-case hex digits.
std::string sha256_hex(std::span<const std::byte> bytes);
std::string sha256_hex(std::string_view text);

}  // namespace ddprun
