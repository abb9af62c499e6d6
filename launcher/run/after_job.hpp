#pragma once

#include "agent/agent_main.hpp"
#include "agent/core/launch_plan.hpp"
#include "slurm/core/requeue.hpp"

#include <optional>

#include <signal.h>

namespace ddprun {

/// Deals with Slurm once the job has ended: reports the hosts that were lost, for the next
/// submission; asks Slurm to start the job again, if that is wanted and useful (20 s at most);
/// otherwise cancels a job whose batch host is lost, and yields what happened.
///
/// Slurm may take SlurmdTimeout (300 s by default) to notice that the batch host is lost. After 10
/// minutes, or if one of `signals` arrives, which are blocked, the job is left as it is.
///
/// REQUIRES: as AfterJob.
std::optional<LateEvent> after_job(
    const LaunchPlan& plan,
    const RequeuePlan& again,
    const FinishedJob& end,
    const sigset_t& signals);

}  // namespace ddprun
