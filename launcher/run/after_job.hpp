#pragma once

#include "agent/agent_main.hpp"
#include "agent/core/launch_plan.hpp"
#include "slurm/core/requeue.hpp"

#include <optional>

#include <signal.h>

namespace ddprun {

/// What is left to do for Slurm once the job has ended: names the hosts that are lost, for the next
/// submission; asks Slurm to start the job again, if that is wanted and useful, which takes at most
/// 20 s; else ends a job whose batch host is lost, and yields what became of that. Reports the rest
/// on stderr.
///
/// Slurm may take SlurmdTimeout (300 s by default) to notice that the batch host is lost. The job
/// is left as it is after twice that time, or if one of `signals`, which are blocked, arrives.
///
/// REQUIRES: as AfterJob.
std::optional<LateEvent> after_job(
    const LaunchPlan& plan,
    const RequeuePlan& again,
    const FinishedJob& end,
    const sigset_t& signals);

}  // namespace ddprun
