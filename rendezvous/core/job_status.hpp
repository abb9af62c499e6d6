#pragma once

#include "base/time.hpp"
#include "rendezvous/core/coordinator.hpp"
#include "rendezvous/core/policy.hpp"
#include "rendezvous/core/status.hpp"

#include <string>

namespace ddprun {

/// What `coordinator` knows of the job, for whoever asks. `policy` is its own; `version` that of
/// ddprun. Nodes that are lost and owe the present round nothing are left out.
JobStatus job_status(
    const RendezvousPolicy& policy,
    const Coordinator& coordinator,
    std::string version,
    TimePoint now);

}  // namespace ddprun
