#include "rendezvous/core/voter.hpp"

#include "rendezvous/core/earliest_deadline.hpp"

#include <algorithm>
#include <cstddef>

namespace ddprun {

Voter::Voter(const RendezvousPolicy& policy) : policy_(policy), node_(policy.node) {
  leader_.lease = policy.lease;
  leader_.margin = policy.margin;
}

// This node. -----------------------------------------------------------------------------------

Hello Voter::hello() const {
  return {
      .job = policy_.job,
      .node = node_,
      .nodes_min = policy_.nodes.min(),
      .nodes_max = policy_.nodes.max(),
      .max_restarts = policy_.max_restarts,
      .needs_progress = policy_.needs_progress,
      .lease = policy_.lease,
      .has_fence = policy_.has_fence,
      .trusts_replacement = policy_.trusts_replacement,
      .voter_state = state_,
      .awaits = state_.instance.exists() ? Instance() : begun_};
}

void Voter::rejoin_as_new() {
  constexpr std::uint64_t kStep = 0x9E3779B97F4A7C15;  // odd, so that no number comes twice
  node_.incarnation = Incarnation{static_cast<std::uint64_t>(node_.incarnation) + kStep};
  state_ = {};
  newest_started_ = {};
  successors_.clear();
  hosts_.clear();
  dead_ = {};
  replaced_.clear();
  own_ = {.led = 0, .is_newest = false, .past = {}, .may_vote_at = own_.may_vote_at};
}

// The job. -------------------------------------------------------------------------------------

/// A survivor never joins another instance: its bootstrap leader knows nothing of what runs. Nor
/// does a node that was told of one that has begun, before a round of the other was started. Once
/// both have begun, the later one ends when they hear of each other.
bool Voter::may_join(const Instance& instance, bool has_begun_there) const {
  if (state_.instance.exists()) return state_.instance == instance;
  return has_begun_there || !begun_.exists() || begun_ == instance;
}

/// No round of its own was started, as far as it knows, and either one of the other's was, or no
/// node can have started one with this node. A spare knows that there was one of its own, and
/// belongs to the nodes that run it.
bool Voter::leaves_for(const Instance& instance, bool has_begun_there) const {
  const bool is_other = state_.instance.exists() && state_.instance != instance;
  if (!is_other || knows_that_it_has_begun()) return false;
  return has_begun_there || state_.offered.round.number == 0;
}

void Voter::note_begun(const Redirect& redirect) {
  const bool is_ours = redirect.has_begun && is_same_job(redirect, node_.workload);
  if (is_ours && !state_.instance.exists()) begun_ = redirect.instance;
}

void Voter::learn(const VoterState& other) {
  if (other.instance != state_.instance) return;
  newest_started_ = std::max(newest_started_, other.committed.round);
}

// Under a leader. ------------------------------------------------------------------------------

bool Voter::may_obey(const Welcome& welcome) const {
  const Leadership leadership{.term = welcome.term, .leader = welcome.leader.incarnation};
  const bool is_older = welcome.term < state_.term;
  const bool is_other = welcome.term == state_.obeyed.term && state_.obeyed != leadership;
  const bool is_ours = may_join(welcome.instance, welcome.has_begun);
  return is_ours && !is_older && !is_other && !is_dead(leadership);
}

void Voter::obey(const Welcome& welcome, TimePoint hello_at) {
  state_.instance = welcome.instance;
  if (welcome.has_begun) begun_ = welcome.instance;
  state_.term = welcome.term;
  state_.obeyed = {.term = welcome.term, .leader = welcome.leader.incarnation};
  leader_.node = welcome.leader;
  leader_.lease = welcome.lease;
  leader_.margin = welcome.margin;
  leader_.in_time_until = hello_at + leader_.lease + leader_.margin;
  if (!welcome.successors.empty()) put_first(welcome.successors);
}

/// A leader that has started no round knows only the successors that have come to it. The others
/// have votes as before. Without them two groups that wait would never hear of each other.
void Voter::put_first(std::vector<Successor> successors) {
  constexpr std::size_t kKnownMax = 16;
  for (const Successor& earlier : successors_) {
    const auto is_same = [&earlier](const Successor& other) { return other.at == earlier.at; };
    const bool has_room = successors.size() < kKnownMax;
    if (has_room && std::ranges::none_of(successors, is_same)) successors.push_back(earlier);
  }
  successors_ = std::move(successors);
}

void Voter::left_out(const Welcome& welcome) {
  successors_ = welcome.successors;
  if (welcome.has_begun) begun_ = state_.instance;
}

void Voter::hear(TimePoint now) {
  leader_.heard_at = now;
  leader_.hold_until = now + leader_.lease + leader_.margin;
}

void Voter::answered(TimePoint sent_at, TimePoint now) {
  leader_.round_trip = std::max(now - sent_at, leader_.round_trip - leader_.round_trip / 8);
  leader_.in_time_until = std::max(leader_.in_time_until, sent_at + leader_.lease + leader_.margin);
}

void Voter::resize(RoundId round, int voter_count) {
  VoterSet& committed = state_.committed;
  const bool is_smaller = voter_count > 0 && voter_count < committed.size;
  if (round == committed.round && is_smaller) count_no_more_in(committed, voter_count);
}

bool Voter::acknowledge(const OfferRound& offer) {
  const std::int64_t obeyed = state_.obeyed.term;
  const bool is_ours =
      offer.round.term == obeyed && offer.round > state_.offered.round && state_.term == obeyed;
  if (!is_ours) return false;
  // As many leaders have started nothing.
  if (state_.undecided.size() >= kUndecidedMax) return false;
  if (offer.committed.round >= state_.committed.round) {
    const auto known = voter_sets_of(state_);
    const bool is_leader = std::ranges::any_of(known, [&](const VoterSet* reported) {
      return reported->round == offer.committed.round && reported->is_leader;
    });
    state_.committed = offer.committed;
    state_.committed.is_leader = is_leader;
    count_no_more_in(state_.committed, offer.committed.size);
  }
  keep_undecided(offer);
  state_.offered = {
      .round = offer.round,
      .size = offer.voter_count,
      .is_member = true,
      .is_leader = state_.obeyed.leader == node_.incarnation,
      .late = {},
      .members = {}};
  state_.offered_nodes = offer.nodes;
  hosts_ = offer.hosts;
  std::vector<RoundMember>& members = state_.offered.members;
  const int others_run = offer.nodes - (offer.leader_runs ? 1 : 0);
  for (const Successor& successor : offer.successors) {  // those that run come first, then spares
    const int others = static_cast<int>(members.size());
    if (others + 1 >= offer.voter_count) break;
    members.push_back({.node = successor.node, .runs = others < others_run});
  }
  state_.was_to_run = offer.place.has_value();
  state_.leader_ran = offer.leader_runs;
  state_.group_rank = offer.place ? offer.place->group_rank : -1;
  state_.progress = offer.progress;
  // A verdict of an earlier leader was heard by no majority, or there would be no offer.
  state_.verdict.reset();
  successors_ = offer.successors;
  return true;
}

/// A leader that makes another offer has not started what it offered before. Another leader may
/// have.
void Voter::keep_undecided(const OfferRound& offer) {
  const VoterSet& last = state_.offered;
  if (last.size != 0) state_.undecided.push_back(last);
  std::erase_if(state_.undecided, [&](const VoterSet& voters) {
    return voters.round.term == offer.round.term;
  });
  forget_decided();
}

void Voter::forget_decided() {
  std::erase_if(state_.undecided, [this](const VoterSet& voters) {
    return voters.round <= state_.committed.round;
  });
}

void Voter::started() {
  state_.committed = state_.offered;
  forget_decided();
  if (state_.obeyed.leader != node_.incarnation) own_.is_newest = false;
}

// Its own leadership. --------------------------------------------------------------------------

void Voter::lead(const Instance& instance, std::int64_t term) {
  state_.instance = instance;
  state_.term = term;
  state_.obeyed = {.term = term, .leader = node_.incarnation};
  own_.past = {};
  own_.is_newest = true;
  own_.led = term;
  leader_.lease = policy_.lease;
  leader_.margin = policy_.margin;
}

void Voter::depose(PastLeadership past, TimePoint now) {
  own_.past = std::move(past);
  // It has subtracted nodes itself while it led.
  for (const KnownVoterSet& known : own_.past.voter_sets) {
    change_voter_sets(state_, [&known](VoterSet& reported) {
      if (reported.round == known.round && reported.size > known.size)
        take_size(reported, known.size);
    });
  }
  for (const Incarnation dead : own_.past.dead)
    count_late_death(dead);
  // By then nothing runs on what it granted.
  own_.may_vote_at = std::max(now, own_.past.granted_until) + leader_.margin;
}

// Deaths. --------------------------------------------------------------------------------------

bool Voter::goodbye(const Leadership& leadership, TimePoint now) {
  const bool is_ours = leadership == state_.obeyed;
  // A lifeline to an earlier leader, or to one of another instance, may end late: no news here.
  if (is_ours && dead_.of != leadership) {
    dead_ = {.of = leadership, .in_time = now < leader_.in_time_until, .is_replaced = false};
  }
  return is_ours && leadership.term != 0;
}

void Voter::line_ended(Incarnation node) {
  if (policy_.trusts_reset) count_late_death(node);
}

/// A proof that came too late to subtract that node at once.
void Voter::count_late_death(Incarnation node) {
  if (!own_.past.nodes.contains(node)) return;
  for (const KnownVoterSet& known : own_.past.voter_sets) {
    if (!known.members.contains(node)) continue;
    change_voter_sets(state_, [&](VoterSet& voters) {
      if (voters.round == known.round) count_late(voters, node);
    });
  }
}

/// A leader has subtracted nodes from that voter set itself.
void Voter::count_no_more_in(VoterSet& voters, int size) {
  take_size(voters, size);
  std::erase_if(own_.past.voter_sets, [&voters](const KnownVoterSet& known) {
    return known.round == voters.round;
  });
}

bool Voter::is_dead(const Leadership& leadership) const {
  return leadership == dead_.of || leadership.term < dead_.of.term;
}

bool Voter::is_lost(TimePoint now) const {
  const bool is_new = state_.obeyed.term == 0;
  return is_new || led_itself() || is_leader_dead() || now >= leader_.hold_until;
}

std::vector<std::pair<NodeInfo, bool>> Voter::missing(
    TimePoint now, TimePoint leader_silent_at) const {
  std::vector<std::pair<NodeInfo, bool>> nodes;
  const bool has_led = own_.led != 0 && led_itself();
  if (!has_led && state_.obeyed.term != 0) {
    nodes.emplace_back(leader_.node, now >= leader_silent_at);
  }
  for (const auto& [incarnation, node] : own_.past.nodes) {
    nodes.emplace_back(node.info, now >= node.heard_at + leader_.lease + leader_.margin);
  }
  return nodes;
}

bool Voter::has_vote(Incarnation node) const {
  return node == state_.obeyed.leader ||
         std::ranges::any_of(own_.past.voter_sets, [node](const KnownVoterSet& known) {
           return known.members.contains(node);
         });
}

// Votes. ---------------------------------------------------------------------------------------

bool Voter::is_electable() const {
  // A node that was only offered a round belonged to no voter set before, so nodes that wait for it
  // wait in vain, unless the round was started. Then a node that knows this can lead.
  const RoundId newest = std::max(newest_started_, state_.committed.round);
  if (newest.number == 0) return state_.offered.is_member;
  return std::ranges::any_of(voter_sets_of(state_), [&newest](const VoterSet* known) {
    return known->round == newest && known->is_member;
  });
}

bool Voter::may_vote(TimePoint now) const {
  return state_.obeyed.term != 0 && is_lost(now) && now >= own_.may_vote_at;
}

bool Voter::votes_only_for_itself(TimePoint now) const {
  return own_.is_newest && !may_use_half(now);
}

PreVote Voter::pre_vote(TimePoint now) const {
  return {.dead = death_of_leader(now), .voter_state = state_to_report(now)};
}

Vote Voter::vote(std::int64_t term, TimePoint now) {
  Vote vote{.term = term, .dead = death_of_leader(now), .voter_state = state_to_report(now)};
  state_.term = term;
  voted_at_ = now;
  return vote;
}

bool Voter::voted_in_vain(TimePoint now) const {
  const bool has_waited = now >= voted_at_ + leader_.lease + leader_.margin;
  return state_.term > state_.obeyed.term && has_waited;
}

/// As far as it is known here; by replacement only while the other node waits here.
LeaderDeath Voter::death_of_leader(TimePoint now) const {
  const bool is_replaced = replaced_.contains(state_.obeyed.leader) && is_lost(now);
  const bool is_in_time = dead_.of == state_.obeyed && dead_.in_time;
  if (is_in_time || !is_replaced) return dead_;
  return {.of = state_.obeyed, .in_time = false, .is_replaced = true};
}

/// What it knows of the past, including the nodes that it has proofs of too late (E9), and without
/// being a tie-breaker while another node may still take it for dead in time (E8).
VoterState Voter::state_to_report(TimePoint now) const {
  VoterState reported = state_;
  change_voter_sets(reported, [&](VoterSet& voters) {
    if (!may_use_half(now)) voters.is_leader = false;
    for (const KnownVoterSet& known : own_.past.voter_sets) {
      if (known.round != voters.round) continue;
      for (const Incarnation member : known.members) {
        const bool is_replaced = replaced_.contains(member) && own_.past.nodes.contains(member);
        if (is_replaced) count_replaced(voters, member);
      }
    }
    if (voters.late.size() > kLateMax) voters.late.resize(kLateMax);
  });
  return reported;
}

TimePoint Voter::loss_is_sure_at() const {
  return std::max({leader_.hold_until, own_.may_vote_at, own_.past.over_for_all_at});
}

TimePoint Voter::next_deadline(TimePoint last_event) const {
  EarliestDeadline next(last_event);
  next.add(own_.may_vote_at);
  next.add(own_.past.over_for_all_at);
  if (!policy_.trusts_replacement) return next.at();
  for (const auto& [incarnation, node] : own_.past.nodes)
    next.add(node.heard_at + leader_.lease + leader_.margin);
  return next.at();
}

}  // namespace ddprun
