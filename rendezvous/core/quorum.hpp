#pragma once

// Quorums: the only file that counts votes, voters and their dead. docs/elections.md has the rules
// E5 to E10.
//
// A majority of a voter set is always a quorum. To elect a leader, but never to keep a round
// running, half of an even voter set is a quorum too if it has the tie-breaker. That is the leader
// of the voter set's round if MIN of --nnodes allows half of the nodes to run (E8), or the fence if
// there is one (E10).

#include "base/node_range.hpp"
#include "base/time.hpp"
#include "rendezvous/core/messages.hpp"

#include <boost/container/flat_set.hpp>

#include <algorithm>
#include <map>
#include <optional>
#include <vector>

namespace ddprun {

struct QuorumRule {
  NodeRange nodes{1, 1};   // --nnodes
  bool has_fence = false;  // the fence breaks ties, and no leader does
};

constexpr bool is_majority(int votes, int size) {
  return 2 * votes > size;
}

constexpr bool is_half(int votes, int size) {
  return size > 0 && 2 * votes == size;
}

/// The least votes that keep `size` nodes from electing any other node; with `half_suffices`, the
/// nodes that gave them have the tie-breaker.
constexpr int votes_needed(int size, bool half_suffices) {
  return half_suffices ? (size + 1) / 2 : size / 2 + 1;
}

/// Whether the leader of the voter set's round breaks a tie. With a fixed --nnodes half of the
/// nodes could not run, and a tie-breaker would only forbid late proofs.
inline bool leader_breaks_ties(const QuorumRule& rule, int size) {
  return !rule.has_fence && size % 2 == 0 && size / 2 >= rule.nodes.min();
}

// A voter set as a leader knows it. ------------------------------------------------------------

struct KnownVoterSet {
  RoundId round;
  int size = 0;
  /// Those that are known; the others have not reported to the leader. A flat set, because a leader
  /// searches it many times a second.
  boost::container::flat_set<Incarnation> members;
  bool half_suffices = false;  // to elect (E8, E10)
  Incarnation tie_breaker{};   // if it belongs to that half; none: the fence is held
};

/// How many of these voters have not come to the leader.
inline int unseen_in(const KnownVoterSet& voters) {
  return voters.size - static_cast<int>(voters.members.size());
}

/// `dead` cannot have voted: the others elect without it (E6).
inline void subtract(KnownVoterSet& voters, Incarnation dead) {
  if (voters.members.erase(dead) != 0) --voters.size;
}

/// Whether the members for which `has_agreed` holds are a quorum.
bool is_quorum(const KnownVoterSet& voters, const auto& has_agreed) {
  const auto agreed = std::ranges::count_if(voters.members, has_agreed);
  if (agreed >= votes_needed(voters.size, false)) return true;
  const bool may_break_tie = voters.tie_breaker == Incarnation{} || has_agreed(voters.tie_breaker);
  return voters.half_suffices && may_break_tie && agreed >= votes_needed(voters.size, true);
}

/// The latest time by which as many members as make a quorum had been heard; none: too few were.
/// `heard_at` is of the known members, in any order, and is reordered.
std::optional<TimePoint> quorum_heard_at(
    const KnownVoterSet& voters, std::vector<TimePoint>& heard_at);

/// Until when a quorum votes for no other node.
struct QuorumHold {
  TimePoint until;
  TimePoint with_one_more;  // if one more node, which does not hold yet, did so for ever
};

/// `held` says until when each member that has confirmed anything votes for no other node, in any
/// order; `tie_breaker` is the entry of the member that breaks ties, if there is one. Reorders
/// `held`.
QuorumHold quorum_hold(
    const KnownVoterSet& voters,
    std::vector<TimePoint>& held,
    std::optional<TimePoint> tie_breaker);

// A voter set as one of its nodes knows it. ----------------------------------------------------

/// `dead` was proved dead too late to be subtracted at once (E9).
void count_late(VoterSet& voters, Incarnation dead);
/// Another node has taken the name or rank of `node` (E9).
void count_replaced(VoterSet& voters, Incarnation node);
/// Takes the size from a leader, which has subtracted nodes itself. It does not say which, and none
/// may count twice.
void take_size(VoterSet& voters, int size);
/// Whether no other node can lead if one is lost without proof.
inline bool needs_both(const VoterSet& voters) {
  return voters.round.number != 0 && voters.size <= 2;
}

// An election. ---------------------------------------------------------------------------------

/// One voter set with its votes, as one of the voters describes it.
struct Tally {
  int size = 0;              // of the voter set, less those proved dead in time
  bool lost_leader = false;  // of these: the leader of the voter set's round
  int given = 0;             // by members that wait with the candidate
  int late = 0;      // members known as dead too late: each may have voted for some node before
  int replaced = 0;  // of `late`, replaced, whether there is a proof as well or not
  bool has_leader = false;  // the leader of the voter set's round is among the voters
  bool has_fence = false;   // the candidate holds the voter set's fence
};

/// Whether the nodes that gave no vote could have elected a leader, so that a proof which comes
/// late changes nothing (E9).
inline bool others_may_lead(const QuorumRule& rule, const Tally& tally) {
  const int others = tally.size - tally.given;
  if (is_majority(others, tally.size)) return true;
  if (!is_half(others, tally.size)) return false;
  if (rule.has_fence) return !tally.has_fence;
  return leader_breaks_ties(rule, tally.size) && !tally.has_leader;
}

/// Whether every node of the job waits with the candidate, itself or by its replacement. The dead
/// of a smaller voter set may have led on with other nodes, which live.
inline bool is_nobody_elsewhere(const QuorumRule& rule, const Tally& tally) {
  const bool all_wait = tally.replaced > 0 && tally.given + tally.replaced >= tally.size;
  return all_wait && tally.size >= rule.nodes.max();
}

/// The size that the votes are counted against: late proofs are subtracted if no node can have led
/// on without the voters, or if no node is left that could lead (E9).
inline int counted_size(const QuorumRule& rule, const Tally& tally) {
  const bool counts = is_nobody_elsewhere(rule, tally) || !others_may_lead(rule, tally);
  return counts ? tally.size - tally.late : tally.size;
}

/// Never of an empty voter set: a bootstrap leader alone may have started a round that no node here
/// knows.
inline bool wins_by_majority(const QuorumRule& rule, const Tally& tally) {
  const int size = counted_size(rule, tally);
  return size > 0 && is_majority(tally.given, size);
}

/// With the leader of the voter set's round as tie-breaker.
inline bool wins_by_tie(const QuorumRule& rule, const Tally& tally) {
  const int size = counted_size(rule, tally);
  return tally.has_leader && is_half(tally.given, size) && leader_breaks_ties(rule, size);
}

/// With the fence of the voter set, whether it is held yet or not. Not half of what a dead leader
/// leaves: with the other half it had a majority, and may have led another round since.
inline bool wins_with_fence(const QuorumRule& rule, const Tally& tally) {
  return rule.has_fence && !tally.lost_leader && is_half(tally.given, counted_size(rule, tally));
}

/// The newest leaders that are dead to some voter.
struct DeadLeaders {
  Leadership newest;
  bool is_replaced = false;  // others have taken the name or rank of `newest`
  Leadership in_time;        // of those proved in time (E6)
};

using Votes = std::map<Incarnation, Vote>;  // by voter

DeadLeaders dead_leaders(const Votes& votes);

/// What half of a voter set may rely on (E8, E10).
struct TieBreaker {
  bool is_allowed = true;   // what the candidate granted when it last led is over for all (E8)
  bool has_fence = false;   // it holds the voter set's fence
  bool gets_fence = false;  // it does, or is taken to
};

/// The voter set of `round` as `self` may lead it with `votes`; none: they are no quorum, or `self`
/// does not belong to it.
std::optional<KnownVoterSet> elected_by(
    const QuorumRule& rule,
    const Votes& votes,
    RoundId round,
    const TieBreaker& tie_breaker,
    Incarnation self);

}  // namespace ddprun
