#pragma once

#include "agent/core/launch_plan.hpp"

#include <vector>

namespace ddprun {

/// Runs each plan as a job of its own, with its own guard and agent, below this process: none
/// outlives it, and it forwards its signals to all of them. A failed job does not end the others.
///
/// Returns in this process once nothing of them is left, with the status of the first one that did
/// not end with 0, after reporting on stderr which ones failed; and in the process of each job,
/// with the job's status, with which the caller exits.
int run_side_by_side(const std::vector<LaunchPlan>& plans);

}  // namespace ddprun
