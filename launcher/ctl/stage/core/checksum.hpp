#pragma once

#include "base/digest.hpp"
#include "base/error.hpp"

#include <string>
#include <string_view>

namespace ddprun {

/// What a file has to have. Every Checksum in existence has as many small hex digits as its kind.
struct Checksum {
  DigestKind kind = DigestKind::kSha256;
  std::string hex;

  /// "sha256 ba78…".
  std::string text() const;

  bool operator==(const Checksum&) const = default;
};

/// Fails with kInvalidArgument where it is not so many hex digits, large or small.
Result<Checksum> parse_checksum(DigestKind kind, std::string_view hex);

/// The line for `file` in what md5sum or sha256sum print, the kind told by the number of digits; a
/// single checksum without a name is for any file. Folders before names do not count. Fails with
/// kInvalidArgument where there is none, or several that differ.
Result<Checksum> find_checksum(std::string_view sums, std::string_view file);

}  // namespace ddprun
