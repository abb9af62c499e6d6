#pragma once

#include "agent/core/launch_plan.hpp"
#include "launcher/requeue.hpp"

namespace ddprun {

/// Carries out a plan: becomes the front, forks the agent, and returns in both processes once the
/// job has ended, with the exit status (docs/operations.md). The caller ends with it at once.
///
/// REQUIRES: called once, on the main thread, before any other thread exists.
int run(const LaunchPlan& plan, const RequeuePlan& again);

}  // namespace ddprun
