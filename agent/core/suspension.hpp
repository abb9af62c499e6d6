#pragma once

// When a node that was suspended forgets its part in the job and comes back as a new one: all nodes
// slept, perhaps, and those that lost their lease meanwhile have come back without a vote, so one
// that kept its own would wait for theirs in vain.

#include "base/time.hpp"

namespace ddprun {

/// Whether a lease that ends at `until`, and has not been renewed since, is the last that this node
/// will get of its leader because of the suspension: it was renewed before the node went on at
/// `resumed_at`, or in the lease after that, by a leader that is proved dead. Then that one's own
/// suspension may have ended it a moment later. (A leader grants all that the node's own vote would
/// give it, and that vote may come too late.) Of one that is only silent the others may be alive,
/// and need this node's vote.
constexpr bool ends_by_suspension(
    TimePoint until, Duration lease, TimePoint resumed_at, bool is_leader_dead) {
  return until - (is_leader_dead ? 2 : 1) * lease < resumed_at;
}

}  // namespace ddprun
