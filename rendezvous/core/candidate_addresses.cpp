#include "rendezvous/core/candidate_addresses.hpp"

#include <algorithm>

namespace ddprun {

std::vector<CandidateAddress> candidate_addresses(
    const RendezvousPolicy& policy,
    const Voter& voter,
    const std::vector<Endpoint>& survivors,
    int searches,
    TimePoint now) {
  std::vector<CandidateAddress> addresses;
  const auto add = [&](const Endpoint& to) {
    const bool is_own = to == voter.node().listens || to.port == 0;
    const bool is_new = std::ranges::find(addresses, CandidateAddress(to)) == addresses.end();
    if (!is_own && is_new) addresses.emplace_back(to);
  };
  const Endpoint& leader = voter.leader().node.listens;
  if (!voter.is_lost(now)) {
    add(leader);
    return addresses;
  }
  for (const Endpoint& survivor : survivors)
    add(survivor);
  // An earlier leader that is back is called first: without it there may be no majority. Not in the
  // first search: it has not been heard for a while.
  const bool leader_may_live = voter.leader_may_live() && !voter.led_itself();
  if (leader_may_live && searches > 0) add(leader);
  bool has_self = false;
  for (const Successor& successor : voter.successors()) {
    const bool is_self = successor.node == voter.node().incarnation;
    has_self |= is_self;
    if (is_self) {
      addresses.emplace_back(std::nullopt);
    } else {
      add(successor.at);
    }
  }
  const bool has_turn = voter.is_electable() && !voter.votes_only_for_itself(now);
  if (has_turn && !has_self) addresses.emplace_back(std::nullopt);
  if (leader_may_live) add(leader);
  for (const Endpoint& endpoint : policy.meet)
    add(endpoint);
  if (voter.state().obeyed.term != 0 || searches == 0) return addresses;
  for (const Endpoint& refusal : policy.refusals)
    add(refusal);
  return addresses;
}

}  // namespace ddprun
