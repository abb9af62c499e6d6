#include "rendezvous/core/quorum.hpp"

#include <cstddef>
#include <functional>

namespace ddprun {
namespace {

/// Of one voter set, as all votes describe it.
struct Count {
  // Each is true by itself. They are never added up: what two of them leave out may be one node.
  std::vector<Tally> views;
  boost::container::flat_set<Incarnation> members;
  Incarnation leader{};  // of the voter set's round, if it has voted
};

/// A leader that was proved dead in time is subtracted (E6). One that was proved dead too late
/// counts as such (E9), unless the voter had already obeyed a later leader, which subtracted it.
Tally view_of(const VoterSet& reported, const Vote& vote, const DeadLeaders& dead) {
  const auto counts = [&](const Leadership& leadership) {
    return leadership.term != 0 && leadership.term >= reported.round.term &&
           leadership.term >= vote.voter_state.obeyed.term;
  };
  // One that led later has voted for itself, and others with it: its death comes too late here.
  const bool subtracts = counts(dead.in_time) && dead.in_time.term == reported.round.term;
  std::map<Incarnation, bool> late;  // whether it is replaced
  for (const LateDeath& death : reported.late) {
    if (subtracts && death.node == dead.in_time.leader) continue;
    late.emplace(death.node, death.is_replaced);
  }
  if (!subtracts && counts(dead.newest)) late[dead.newest.leader] |= dead.is_replaced;
  Tally tally;
  tally.size = reported.size - (subtracts ? 1 : 0);
  tally.lost_leader = subtracts;
  tally.late = static_cast<int>(late.size());
  tally.replaced =
      static_cast<int>(std::ranges::count_if(late, [](const auto& death) { return death.second; }));
  return tally;
}

Count count(const Votes& votes, RoundId round, const TieBreaker& tie_breaker) {
  Count found;
  const DeadLeaders dead = dead_leaders(votes);  // once: there may be a thousand votes
  for (const auto& [node, vote] : votes) {
    for (const VoterSet* reported : voter_sets_of(vote.voter_state)) {
      if (reported->round != round || reported->size == 0) continue;
      found.views.push_back(view_of(*reported, vote, dead));
      if (reported->is_member) found.members.insert(node);
      if (reported->is_leader && tie_breaker.is_allowed) found.leader = node;
      // Those that the leader had no time to tell.
      for (const RoundMember& member : reported->members) {
        if (votes.contains(member.node)) found.members.insert(member.node);
      }
    }
  }
  for (Tally& tally : found.views) {
    tally.given = static_cast<int>(found.members.size());
    tally.has_leader = found.leader != Incarnation{};
    tally.has_fence = tie_breaker.has_fence;
  }
  return found;
}

/// Until when `votes` of those that hold until `held` do so.
QuorumHold held_by(std::vector<TimePoint>& held, int votes) {
  if (votes <= 0) return {.until = kNever, .with_one_more = kNever};
  const auto needed = static_cast<std::size_t>(votes - 1);  // and one more
  if (held.size() < needed) return {};
  const auto last = held.begin() + static_cast<std::ptrdiff_t>(needed);
  QuorumHold out{.until = {}, .with_one_more = kNever};
  if (last != held.end()) {
    std::ranges::nth_element(held, last, std::greater<>());
    out.until = *last;
  }
  if (needed > 0) out.with_one_more = *std::min_element(held.begin(), last);
  return out;
}

}  // namespace

std::optional<TimePoint> quorum_heard_at(
    const KnownVoterSet& voters, std::vector<TimePoint>& heard_at) {
  const auto needed = std::max(1, votes_needed(voters.size, voters.half_suffices)) - 1;
  if (std::ssize(heard_at) <= needed) return std::nullopt;
  const auto last = heard_at.begin() + needed;
  std::ranges::nth_element(heard_at, last, std::greater<>());
  return *last;
}

QuorumHold quorum_hold(
    const KnownVoterSet& voters,
    std::vector<TimePoint>& held,
    std::optional<TimePoint> tie_breaker) {
  const QuorumHold majority = held_by(held, std::max(1, votes_needed(voters.size, false)));
  if (!voters.half_suffices) return majority;
  const int votes = std::max(1, votes_needed(voters.size, true));
  const bool is_fenced = voters.tie_breaker == Incarnation{};
  if (!is_fenced && !tie_breaker) return majority;
  QuorumHold half;
  if (is_fenced) {
    half = held_by(held, votes);
  } else {
    held.erase(std::ranges::find(held, *tie_breaker));
    half = held_by(held, votes - 1);
    half = {
        .until = std::min(half.until, *tie_breaker),
        .with_one_more = std::min(half.with_one_more, *tie_breaker)};
  }
  return {
      .until = std::max(majority.until, half.until),
      .with_one_more = std::max(majority.with_one_more, half.with_one_more)};
}

void count_late(VoterSet& voters, Incarnation dead) {
  if (std::ranges::find(voters.late, dead, &LateDeath::node) != voters.late.end()) return;
  voters.late.push_back({.node = dead, .is_replaced = false});
}

void count_replaced(VoterSet& voters, Incarnation node) {
  count_late(voters, node);
  std::ranges::find(voters.late, node, &LateDeath::node)->is_replaced = true;
}

void take_size(VoterSet& voters, int size) {
  voters.size = size;
  voters.late.clear();
}

DeadLeaders dead_leaders(const Votes& votes) {
  DeadLeaders dead;
  for (const auto& [node, vote] : votes) {
    const LeaderDeath& reported = vote.dead;
    if (reported.of.term > dead.newest.term) dead.newest = reported.of;
    const bool is_newer = reported.of.term > dead.in_time.term;
    if (reported.in_time && is_newer) dead.in_time = reported.of;
  }
  dead.is_replaced = std::ranges::any_of(votes, [&dead](const auto& entry) {
    return entry.second.dead.of == dead.newest && entry.second.dead.is_replaced;
  });
  return dead;
}

std::optional<KnownVoterSet> elected_by(
    const QuorumRule& rule,
    const Votes& votes,
    RoundId round,
    const TieBreaker& tie_breaker,
    Incarnation self) {
  const Count counted = count(votes, round, tie_breaker);
  // A leader belongs to its voter sets, or its death could not be subtracted from them.
  if (!counted.members.contains(self)) return std::nullopt;
  std::optional<KnownVoterSet> best;
  for (const Tally& tally : counted.views) {
    const bool by_majority = wins_by_majority(rule, tally);
    const bool by_fence = tie_breaker.gets_fence && wins_with_fence(rule, tally);
    const bool by_half = by_fence || wins_by_tie(rule, tally);
    if (!by_majority && !(by_half && tie_breaker.is_allowed)) continue;
    const int size = counted_size(rule, tally);
    if (best && best->size <= size) continue;
    best = KnownVoterSet{
        .round = round,
        .size = size,
        .members = counted.members,
        .half_suffices = !by_majority,
        .tie_breaker = by_fence ? Incarnation{} : counted.leader};
  }
  return best;
}

}  // namespace ddprun
