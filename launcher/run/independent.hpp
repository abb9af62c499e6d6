#pragma once

#include "agent/core/launch_plan.hpp"

#include <vector>

namespace ddprun {

/// Each plan as a job of its own, with a guard and an agent of its own, below this process: none
/// outlives it, and signals that come to it go to all of them. One that fails ends no other.
///
/// Returns in this process, once nothing of them is left, with the status of the first one that did
/// not end with 0, having said on stderr which ones; and in the process of each job, with its
/// status, for which the caller ends.
int run_side_by_side(const std::vector<LaunchPlan>& plans);

}  // namespace ddprun
