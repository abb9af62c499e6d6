#pragma once

// What is a quorum of a voter set: the only place with such arithmetic. docs/rendezvous.md names
// the rules.
//
// A majority always is one. To elect a leader, never to keep a round running, half of an even
// voter set is one as well if it has the casting vote: that of the leader of the voter set's
// round, in a job whose MIN lets half of the nodes run on (E8); or the fence, where there is one
// (E10).

#include "base/node_range.hpp"

namespace ddprun {

struct QuorumRule {
  NodeRange nodes{1, 1};   // --nnodes
  bool has_fence = false;  // the fence has the casting vote, and no leader
};

constexpr bool is_majority(int votes, int size) {
  return 2 * votes > size;
}

constexpr bool is_half(int votes, int size) {
  return size > 0 && 2 * votes == size;
}

/// The least votes that keep `size` nodes from electing anybody else; with `half_suffices`, those
/// who gave them have the casting vote.
constexpr int votes_needed(int size, bool half_suffices) {
  return half_suffices ? (size + 1) / 2 : size / 2 + 1;
}

/// Whether the leader of the voter set's round breaks a tie. In a fixed world half of the nodes
/// could not run, and a tie-break would only forbid late proofs.
inline bool leader_breaks_ties(const QuorumRule& rule, int size) {
  return !rule.has_fence && size % 2 == 0 && size / 2 >= rule.nodes.min();
}

/// Tally in one voter set, as a candidate counts them.
struct Tally {
  int size = 0;              // of the voter set, less those proved dead in time
  bool lost_leader = false;  // of these: the leader of the voter set's round
  int given = 0;             // by members who wait with the candidate
  int late = 0;      // members known as dead too late: each may have voted for somebody before
  int replaced = 0;  // of `late`, replaced, whether there is a proof as well or not
  bool has_leader = false;  // the leader of the voter set's round is among the voters
  bool has_fence = false;   // the candidate holds the voter set's fence
};

/// Whether those who gave no vote could have elected somebody, so that a proof which comes late
/// changes nothing (E9).
inline bool others_may_lead(const QuorumRule& rule, const Tally& tally) {
  const int others = tally.size - tally.given;
  if (is_majority(others, tally.size)) return true;
  if (!is_half(others, tally.size)) return false;
  if (rule.has_fence) return !tally.has_fence;
  return leader_breaks_ties(rule, tally.size) && !tally.has_leader;
}

/// Whether every node of the job waits with the candidate, itself or by who replaces it. Of a
/// smaller voter set those that are dead may have led on with others, who live.
inline bool is_nobody_elsewhere(const QuorumRule& rule, const Tally& tally) {
  const bool all_wait = tally.replaced > 0 && tally.given + tally.replaced >= tally.size;
  return all_wait && tally.size >= rule.nodes.max();
}

/// The size that the votes are counted against: late proofs are subtracted if nobody can have led
/// on without those who voted, or if nobody is left who could lead (E9).
inline int counted_size(const QuorumRule& rule, const Tally& tally) {
  const bool counts = is_nobody_elsewhere(rule, tally) || !others_may_lead(rule, tally);
  return counts ? tally.size - tally.late : tally.size;
}

/// Never of a voter set of none: a bootstrap leader alone may have started a round that nobody here
/// knows.
inline bool wins_by_majority(const QuorumRule& rule, const Tally& tally) {
  const int size = counted_size(rule, tally);
  return size > 0 && is_majority(tally.given, size);
}

/// With the casting vote of the leader of the voter set's round.
inline bool wins_by_tie(const QuorumRule& rule, const Tally& tally) {
  const int size = counted_size(rule, tally);
  return tally.has_leader && is_half(tally.given, size) && leader_breaks_ties(rule, size);
}

/// With the fence of the voter set, whether it is held yet or not. Not of what its dead leader
/// leaves: with the other half of that it was a majority, and may have led another round since.
inline bool wins_with_fence(const QuorumRule& rule, const Tally& tally) {
  return rule.has_fence && !tally.lost_leader && is_half(tally.given, counted_size(rule, tally));
}

}  // namespace ddprun
