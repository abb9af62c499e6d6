#pragma once

#include "base/error.hpp"

#include <string_view>
#include <vector>

namespace ddprun {

/// A number for each node, in node order, from the format of SLURM_TASKS_PER_NODE and
/// SLURM_JOB_CPUS_PER_NODE: "6,1(x2)" is 6, 1, 1. Their sum fits into an int.
///
/// Fails with kInvalidArgument if a number is not between 1 and 32,767, or there are more than
/// kHostsMax nodes; names the piece and the reason, but not the variable.
Result<std::vector<int>> expand_counts(std::string_view text);

}  // namespace ddprun
