#pragma once

#include "agent/core/launch_plan.hpp"
#include "slurm/core/requeue.hpp"

#include <signal.h>

namespace ddprun {

/// Blocks SIGCHLD, the signals that end the job, and those that scripts use as notices and that
/// would otherwise end this process. Returns all of them except SIGCHLD, to be forwarded. They stay
/// blocked and are read (by signalfd and sigwaitinfo, not handlers), so none is lost between the
/// first instruction, the fork and the first wait.
sigset_t block_signals_of(const LaunchPlan& plan);

/// Warns if a process that outlives its worker may outlive the job, since no process here may adopt
/// orphans, and says what to do. For the program's start: guard, agent and --independent say
/// nothing about it.
void warn_of_lost_orphans();

/// Carries out a plan: becomes the guard, forks the agent, and returns in both processes once the
/// job has ended, with the exit status (docs/reference.md). The caller exits with it immediately.
///
/// REQUIRES: called once, on the main thread, before any other thread exists.
int run(const LaunchPlan& plan, const RequeuePlan& again);

}  // namespace ddprun
