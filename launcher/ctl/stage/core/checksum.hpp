#pragma once

#include "base/digest.hpp"
#include "base/error.hpp"

#include <string>
#include <string_view>

namespace ddprun {

/// An expected checksum. Invariant: `hex` has as many lower-case hex digits as `kind` requires.
struct Checksum {
  DigestKind kind = DigestKind::kSha256;
  std::string hex;

  /// "sha256 ba78…".
  std::string text() const;

  bool operator==(const Checksum&) const = default;
};

/// Fails with kInvalidArgument if `hex` does not have that many hex digits, of either case.
Result<Checksum> parse_checksum(DigestKind kind, std::string_view hex);

/// The checksum of `file` in the output of md5sum or sha256sum; the number of digits gives the
/// kind. A single checksum without a name fits any file. Directories before names are ignored.
/// Fails with kInvalidArgument if there is none, or several that differ.
Result<Checksum> find_checksum(std::string_view sums, std::string_view file);

}  // namespace ddprun
