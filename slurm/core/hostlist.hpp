#pragma once

// Slurm's short notation for many host names: "gpu-a[01-03],b7".
//
// Expanding needs no scontrol, which may be missing in a container, needs a readable slurm.conf,
// and retries for a minute if that names a file that does not exist. The results equal those of
// `scontrol show hostnames` and `scontrol show hostlist` of Slurm 22.05, including order and
// repeats. Lists that Slurm never writes are errors, although scontrol would guess: an open
// bracket, blanks in a bracket, a range without an end, a number above 2^64, a byte that no host
// name has. A newline separates hosts as a blank does, also after a bracket, where scontrol
// fails.

#include "base/error.hpp"

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun {

/// Slurm's limit for one range; here the limit of a whole list.
inline constexpr std::size_t kHostsMax = 65'536;
/// DNS allows no longer names.
inline constexpr std::size_t kHostNameBytesMax = 255;

/// The hosts in the order of the list, which is Slurm's: never sort them. Fails with
/// kInvalidArgument, naming the position (bytes, from 1), the piece and the reason.
///
/// As in Slurm, "n[8-011]" is n8 n9 n10 n11, as wide as its first number. Of several brackets the
/// last one changes fastest, then the first, the second, and so on.
Result<std::vector<std::string>> expand_hostlist(std::string_view list);

/// The shortest list that expands to exactly these hosts in this order, as scontrol writes it:
/// neighbours that differ in their last number share a bracket.
///
/// REQUIRES: each is a host as expand_hostlist() yields it.
std::string fold_hostlist(std::span<const std::string> hosts);

/// A number for each node, in node order, from the format of SLURM_TASKS_PER_NODE and
/// SLURM_JOB_CPUS_PER_NODE: "6,1(x2)" is 6, 1, 1. Their sum fits into an int.
///
/// Fails with kInvalidArgument if a number is not between 1 and 32,767, or there are more than
/// kHostsMax nodes; names the piece and the reason, but not the variable.
Result<std::vector<int>> expand_counts(std::string_view text);

}  // namespace ddprun
