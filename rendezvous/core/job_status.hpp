#pragma once

#include "base/time.hpp"
#include "rendezvous/core/coordinator.hpp"
#include "rendezvous/core/policy.hpp"
#include "rendezvous/core/status.hpp"

#include <string>
#include <vector>

namespace ddprun {

/// What the job that `coordinator` leads does.
JobStatus::State job_state(const Coordinator& coordinator, TimePoint now);

/// The status of the job that `coordinator` leads under `policy`. `version` is that of ddprun,
/// `own_steps` of the workers of this node, which sends no heartbeats to itself. Lost nodes that
/// are no longer needed to end the current round are left out.
JobStatus job_status(
    const RendezvousPolicy& policy,
    const Coordinator& coordinator,
    std::string version,
    const std::vector<StepReport>& own_steps,
    TimePoint now);

}  // namespace ddprun
