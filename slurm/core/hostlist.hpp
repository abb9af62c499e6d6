#pragma once

// Slurm's way to write many host names in few letters: "gpu-a[01-03],b7".
//
// Expanding needs no scontrol, which may be missing in a container, wants a readable slurm.conf,
// and retries for a minute where that names a file that is not there. What comes from `scontrol
// show hostnames` and `scontrol show hostlist` of Slurm 22.05 comes from here, in its order and
// with its repeats. Lists that no Slurm writes are refused where scontrol would guess: a bracket
// that is not closed, blanks in one, a range without an end, a number above 2^64, a byte that is in
// no host name. A newline separates hosts as a blank does, behind a bracket too, where scontrol
// gives up.

#include "base/error.hpp"

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun {

/// Slurm's own limit for one range; here it is that of a whole list.
inline constexpr std::size_t kHostsMax = 65'536;
/// The longest name that DNS knows.
inline constexpr std::size_t kHostNameBytesMax = 255;

/// The hosts in the list's order, which is Slurm's: never sort them. Fails with kInvalidArgument,
/// naming the position (bytes, from 1), the piece and the reason.
///
/// Odd, but Slurm's: "n[8-011]" is n8 n9 n10 n11, as wide as its first number. Of several brackets
/// the last one changes fastest, then the first, the second, and so on.
Result<std::vector<std::string>> expand_hostlist(std::string_view list);

/// The shortest list without a change of order that expands to exactly these hosts, as scontrol
/// writes it: neighbours that differ in their last number share a bracket.
///
/// REQUIRES: each is a host as expand_hostlist() gives them.
std::string fold_hostlist(std::span<const std::string> hosts);

}  // namespace ddprun
