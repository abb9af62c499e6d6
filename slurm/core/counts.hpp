#pragma once

#include "base/error.hpp"

#include <string_view>
#include <vector>

namespace ddprun {

/// A number for each node, in node order, as SLURM_TASKS_PER_NODE and SLURM_JOB_CPUS_PER_NODE have
/// it: "6,1(x2)" is 6, 1, 1. Their sum fits into an int.
///
/// Fails with kInvalidArgument where a number is not between 1 and 32,767, or beyond kHostsMax
/// nodes; says which piece and why, not which variable.
Result<std::vector<int>> expand_counts(std::string_view text);

}  // namespace ddprun
