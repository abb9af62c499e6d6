#pragma once

// When a node that was suspended forgets its part in the job and starts over as a new one. If all
// nodes were suspended, those that lost their lease meanwhile are back without a vote, so a node
// that kept its own vote would wait for theirs in vain.

#include "base/time.hpp"

namespace ddprun {

/// Whether the suspension is why a lease that ends at `until`, and has not been renewed since, is
/// the last that this node gets from its leader. It is if the lease was renewed before the node was
/// resumed at `resumed_at`, or in the next lease by a leader that is proved dead: that leader's own
/// suspension may have ended it a moment later. (A leader may grant what only this node's own vote
/// would give it, and that vote may come too late.) If the leader is only silent, the other nodes
/// may live, and need this node's vote.
constexpr bool ends_by_suspension(
    TimePoint until, Duration lease, TimePoint resumed_at, bool is_leader_dead) {
  return until - (is_leader_dead ? 2 : 1) * lease < resumed_at;
}

}  // namespace ddprun
