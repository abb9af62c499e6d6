#pragma once

#include "base/time.hpp"
#include "rendezvous/core/coordinator.hpp"
#include "rendezvous/core/policy.hpp"
#include "rendezvous/core/status.hpp"

#include <string>

namespace ddprun {

/// What the job that `coordinator` leads does.
JobStatus::State job_state(const Coordinator& coordinator, TimePoint now);

/// The status of the job that `coordinator` leads under `policy`. `version` is that of ddprun. Lost
/// nodes that are no longer needed to end the current round are left out.
JobStatus job_status(
    const RendezvousPolicy& policy,
    const Coordinator& coordinator,
    std::string version,
    TimePoint now);

}  // namespace ddprun
