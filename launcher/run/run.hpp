#pragma once

#include "agent/core/launch_plan.hpp"
#include "launcher/run/requeue.hpp"

#include <signal.h>

namespace ddprun {

/// Blocks SIGCHLD, the signals that end the job, and those that scripts use as notices and that
/// would end us otherwise; all but SIGCHLD are returned, to be passed on. Blocked from here on and
/// read (by signalfd and sigwaitinfo rather than handlers), so that none is lost between the first
/// instruction, the fork and the first wait.
sigset_t block_signals_of(const LaunchPlan& plan);

/// Carries out a plan: becomes the guard, forks the agent, and returns in both processes once the
/// job has ended, with the exit status (docs/operations.md). The caller ends with it at once.
///
/// REQUIRES: called once, on the main thread, before any other thread exists.
int run(const LaunchPlan& plan, const RequeuePlan& again);

}  // namespace ddprun
