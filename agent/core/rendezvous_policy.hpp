#pragma once

#include "agent/core/launch_plan.hpp"
#include "rendezvous/core/policy.hpp"

namespace ddprun {

/// The policy of this node. `own` has what the plan does not say: the node's incarnation, host,
/// address and machine, the seed, and what became of the endpoint. Its `if_unanswered` is why this
/// node cannot listen at its endpoint, where another agent may; usually empty.
RendezvousPolicy rendezvous_policy(const LaunchPlan& plan, RendezvousPolicy own);

}  // namespace ddprun
