#pragma once

#include "base/endpoint.hpp"
#include "base/time.hpp"
#include "rendezvous/core/policy.hpp"
#include "rendezvous/core/voter.hpp"

#include <optional>
#include <vector>

namespace ddprun {

/// Where a node looks for a leader; none: it is its own turn to gather votes.
using CandidateAddress = std::optional<Endpoint>;

/// All of them, in the order in which they are tried: only the leader while it is not lost; else
/// the survivors, the successors and the endpoints. `searches`: how often they were tried before.
std::vector<CandidateAddress> candidate_addresses(
    const RendezvousPolicy& policy,
    const Voter& voter,
    const std::vector<Endpoint>& survivors,
    int searches,
    TimePoint now);

}  // namespace ddprun
