#include "rendezvous/core/rounds.hpp"

#include "base/check.hpp"
#include "rendezvous/core/earliest_deadline.hpp"
#include "rendezvous/core/rank_plan.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <map>
#include <string_view>
#include <utility>

namespace ddprun {
namespace {

constexpr std::size_t kSuccessorsMax = 8;
constexpr std::size_t kHostsBytesMax = 32'768;  // of DDPRUN_NODES

/// "n0,n1,n2", up to the first host that does not fit. Not one after it either: the hosts are in
/// the order of the group ranks.
std::string joined(const std::vector<std::string>& hosts) {
  std::string text;
  for (const std::string& host : hosts) {
    const std::string_view comma = text.empty() ? "" : ",";
    if (text.size() + comma.size() + host.size() > kHostsBytesMax) break;
    text += comma;
    text += host;
  }
  return text;
}

}  // namespace

Rounds::Rounds(
    const LeaderContext& context,
    Roster& roster,
    LeaderLease& lease,
    const ElectionResult& election_result)
    : context_(context),
      roster_(roster),
      lease_(lease),
      hosts_(election_result.hosts),
      last_number_(election_result.last_round),
      progress_(election_result.progress),
      restarts_(context.policy, election_result.progress.restarts_used),
      has_begun_(election_result.has_history),
      is_last_(election_result.verdict.has_value()) {
  if (!has_begun_) return;
  ++progress_.attempt;
  progress_.previous_world = progress_.world;
  progress_.reason =
      election_result.was_leader ? "the leader had lost its majority" : "the leader was lost";
}

void Rounds::apply(RoundEvent event, TimePoint now, Effects& out, StopRound order) {
  if (event == RoundEvent::kVerdict) is_last_ = true;
  const auto [next, action] = step(phase_, event);
  phase_ = next;
  switch (action) {
    case RoundAction::kNothing:
      return;
    case RoundAction::kOffer:
      return offer(now, out);
    case RoundAction::kCancel:
      return lease_.cancel_offer();
    case RoundAction::kStart:
      return start(now, out);
    case RoundAction::kStop:
      return stop(std::move(order), out);
    case RoundAction::kClose:
      return close();
    case RoundAction::kBug:
      DDPRUN_CHECK(action != RoundAction::kBug);
  }
}

// The offer. -----------------------------------------------------------------------------------

/// All nodes that are ready, also those for which there is no place.
std::vector<Participant> Rounds::participants(TimePoint now) const {
  std::vector<Participant> participants;
  for (const auto& [incarnation, node] : roster_.nodes()) {
    if (!node.is_ready()) continue;
    participants.push_back(
        {.node = incarnation,
         .host = node.info.host,
         .node_rank = node.info.node_rank,
         .previous = node.group_rank,
         .joined = node.joined,
         .workers = node.info.workers,
         .is_unfit = !roster_.is_fit(node, now)});
  }
  return participants;
}

void Rounds::offer(TimePoint now, Effects& out) {
  std::vector<Participant> participants = this->participants(now);
  round_ = Round();
  round_.id = {.term = context_.term, .number = ++last_number_};
  round_.voters.round = round_.id;
  for (const Participant& participant : participants) {
    round_.voters.members.insert(participant.node);
  }
  round_.voters.size = static_cast<int>(participants.size());

  const NodeRange& range = context_.policy.nodes;
  const Incarnation self = context_.self.incarnation;
  const auto assignments = plan_ranks(
      choose_participants(std::move(participants), self, range.min(), range.max()), self);
  OfferRound offer;
  std::map<Incarnation, Place> places;
  hosts_.clear();
  for (const auto& [incarnation, place] : assignments) {
    const std::string& host = roster_.nodes().at(incarnation).info.host;
    round_.to_run.push_back(incarnation);
    round_.runs.insert(incarnation);
    places.emplace(incarnation, place);
    progress_.world = place.world_size;
    hosts_.push_back(host);
  }
  offer.hosts = joined(hosts_);
  offer.round = round_.id;
  offer.nodes = static_cast<int>(assignments.size());
  offer.leader_runs = round_.is_to_run(self);
  offer.voter_count = round_.voters.size;
  offer.master = context_.policy.master;
  offer.successors = successors();
  offer.progress = progress_;
  const KnownVoterSet& committed = lease_.voter_sets().front();
  for (const Incarnation member : round_.voters.members) {
    const auto place = places.find(member);
    offer.place = place == places.end() ? std::nullopt : std::optional(place->second);
    offer.committed = {
        .round = committed.round,
        .size = committed.size,
        .is_member = committed.members.contains(member),
        .is_leader = false,
        .late = {},
        .members = {}};
    Node& node = roster_.nodes().at(member);
    node.group_rank = offer.place ? offer.place->group_rank : node.group_rank;
    send(node, offer, out);
  }
  lease_.offer(round_.voters, now);
  for (const Incarnation member : round_.voters.members) {
    note_unfit(roster_.nodes().at(member), now, out);
  }
}

/// Reports once that this node is here and not fit, and whether it runs workers nevertheless.
/// REQUIRES: the present round was offered.
void Rounds::note_unfit(Node& node, TimePoint now, Effects& out) {
  const std::string why = node.is_idle() ? roster_.why_unfit(node, now) : "";
  if (why.empty()) return;
  std::string text = fmt::format(
      "node {} is not fit: {}; {}",
      node.info.host,
      why,
      round_.is_to_run(node.info.incarnation)
          ? "it runs workers anyway, because too few other nodes are fit"
          : "it stands by");
  if (text == node.reported_unfit) return;
  node.reported_unfit = text;
  out.emplace_back(effects::Note{.text = std::move(text), .is_for_all = true});
}

/// The nodes of the round by group rank, then its spares, then the others.
std::vector<Successor> Rounds::successors() const {
  std::vector<Successor> out;
  const auto add = [&](Incarnation incarnation) {
    const Node* const node = roster_.find(incarnation);
    const bool has_room = out.size() < kSuccessorsMax;
    if (!has_room || context_.is_self(incarnation) || node == nullptr) return;
    out.push_back({.node = incarnation, .at = node->info.listens});
  };
  std::ranges::for_each(round_.to_run, add);
  for (const bool has_vote : {true, false}) {
    for (const auto& [incarnation, node] : roster_.nodes()) {
      if (out.size() >= kSuccessorsMax) break;
      const bool votes = round_.voters.members.contains(incarnation);
      if (votes == has_vote && !round_.is_to_run(incarnation)) add(incarnation);
    }
  }
  return out;
}

void Rounds::welcome(const Node& node, Effects& out) const {
  send(
      node,
      Welcome{
          .instance = context_.instance,
          .term = context_.term,
          .leader = context_.self,
          .lease = context_.policy.lease,
          .margin = context_.policy.margin,
          .successors = successors(),
          .has_begun = has_begun_,
          .is_full = is_full_without(node.info.incarnation)},
      out);
}

bool Rounds::is_full_without(Incarnation node) const {
  return is_started() && !round_.is_to_run(node) &&
         std::ssize(round_.to_run) >= context_.policy.nodes.max();
}

void Rounds::member_gone(Incarnation node, TimePoint now, Effects& out) {
  if (round_.voters.members.contains(node)) apply(RoundEvent::kMemberGone, now, out);
}

// The start. -----------------------------------------------------------------------------------

void Rounds::acknowledged(Incarnation node, const Acknowledge& acknowledge) {
  const bool is_present = phase_ == RoundPhase::kOffered && acknowledge.round == round_.id;
  if (is_present) round_.acknowledged.insert(node);
}

bool Rounds::may_start(TimePoint now) const {
  if (phase_ != RoundPhase::kOffered) return false;
  // The sizes first: each acknowledgement asks this.
  if (round_.acknowledged.size() < round_.to_run.size()) return false;
  const auto has_acknowledged = [this](Incarnation node) {
    return round_.acknowledged.contains(node);
  };
  if (!std::ranges::all_of(round_.to_run, has_acknowledged)) return false;
  return lease_.majority_is_with_offer(has_acknowledged) && lease_.grants_until() > now;
}

void Rounds::start(TimePoint now, Effects& out) {
  has_begun_ = true;
  timers_ = {};
  round_.started_at = now;
  roster_.lost().round_starts(lease_.voter_sets().front(), now + context_.policy.search_timeout);
  lease_.start(now);
  effects::BeginStore store{.round = round_.id, .nodes = {}, .successors = {}};
  for (const Successor& successor : successors()) {
    store.successors.push_back(successor.node);
  }
  for (const Incarnation incarnation : round_.to_run) {
    Node& node = roster_.nodes().at(incarnation);
    node.may_run = true;
    store.nodes.push_back(
        {.link = node.link.value_or(Link{}),
         .host = node.info.listens.host,
         .incarnation = incarnation});
  }
  out.emplace_back(std::move(store));
  for (const Incarnation member : round_.voters.members) {
    const Node* const node = roster_.find(member);
    if (node == nullptr || !node->link) continue;
    if (round_.is_to_run(member)) round_.started_on.emplace(member, *node->link);
    // Its lease, under the voter set that holds from now on.
    if (!context_.is_self(member)) send(*node, lease_.answer(member), out);
    send(*node, StartRound{.round = round_.id}, out);
  }
  // The others have to know as well which nodes to try if this one is lost.
  for (const auto& [incarnation, node] : roster_.nodes()) {
    if (!round_.voters.members.contains(incarnation)) welcome(node, out);
  }
  out.emplace_back(effects::Note{
      .text = fmt::format(
          "round {} of term {} starts on {} nodes with {} workers",
          round_.id.number,
          round_.id.term,
          round_.to_run.size(),
          progress_.world)});
}

// The run, and its end. ------------------------------------------------------------------------

bool Rounds::reported(Node& node, bool is_first, TimePoint now, Effects& out) {
  const Incarnation incarnation = node.info.incarnation;
  const WorkerNews& news = node.news;
  if (!is_started() || !round_.is_to_run(incarnation)) {
    node.may_run = !node.is_idle();
    const bool came_late = phase_ != RoundPhase::kGathering && !round_.is_to_run(incarnation);
    if (came_late) note_unfit(node, now, out);
    return false;
  }
  const bool is_of_round = news.round == round_.id;
  if (!is_of_round) {
    // It reports right after its Welcome: the start was lost with the connection it was sent on.
    const auto started_on = round_.started_on.find(incarnation);
    const bool lost_start = is_first && started_on != round_.started_on.end() &&
                            started_on->second != node.link && node.is_idle();
    if (!lost_start) return false;
  }
  node.may_run = !node.is_idle();
  if (node.is_idle()) round_.ended.insert(incarnation);
  if (is_of_round && news.state == WorkersState::kSucceeded) round_.succeeded.insert(incarnation);
  if (is_of_round && news.has_saved) round_.saved.insert(incarnation);
  return true;
}

bool Rounds::lost(Incarnation node, TimePoint now, Effects& out) {
  member_gone(node, now, out);
  return round_.is_to_run(node) && round_.ended.insert(node).second;
}

bool Rounds::is_success(TimePoint now) {
  if (!timers_.succeeded_at) timers_.succeeded_at = now;
  return now >= *timers_.succeeded_at + context_.policy.notice_delay;
}

void Rounds::restart_for_newcomers(TimePoint now, Effects& out) {
  const auto is_newcomer = [&](const auto& entry) {
    const auto& [incarnation, node] = entry;
    return node.is_ready() && !round_.is_to_run(incarnation) && roster_.is_fit(node, now);
  };
  const auto runs_unfit = [&](const auto& entry) {
    const auto& [incarnation, node] = entry;
    return !roster_.is_fit(node, now) && round_.is_to_run(incarnation);
  };
  const auto& nodes = roster_.nodes();
  const bool has_room = std::ssize(round_.to_run) < context_.policy.nodes.max() ||
                        std::ranges::any_of(nodes, runs_unfit);
  if (!has_room) return;
  const auto newcomer = std::ranges::find_if(nodes, is_newcomer);
  if (newcomer == nodes.end() || !round_.succeeded.empty()) {
    timers_.newcomer_at.reset();
    return;
  }
  if (!timers_.newcomer_at) timers_.newcomer_at = now;
  if (restarts_.is_pending()) return;  // the failure restarts the round, or ends the job
  if (now < *timers_.newcomer_at + context_.policy.newcomer_pause) return;
  restart_without_charge(fmt::format("node {} joins", newcomer->second.info.host), now, out);
}

std::optional<std::string> Rounds::silent_host(TimePoint now) const {
  for (const Incarnation incarnation : round_.to_run) {
    const Node* const node = roster_.find(incarnation);
    if (node == nullptr || context_.is_self(incarnation)) continue;
    if (now - node->heard_at >= context_.policy.lease / 2) return node->info.host;
  }
  return std::nullopt;
}

void Rounds::restart_without_charge(std::string why, TimePoint now, Effects& out) {
  StopRound order;
  order.why = std::move(why);
  order.restarts = true;
  apply(RoundEvent::kStop, now, out, std::move(order));
}

void Rounds::stop(StopRound order, Effects& out) {
  restarts_.clear();
  timers_.succeeded_at.reset();
  order.round = round_.id;
  order.restarts = order.restarts && !is_last_;
  order.restarts_used = restarts_.budget().used();
  order.restarts_max = restarts_.budget().max();
  round_.order = order;
  round_.order.culprit.reset();
  progress_.reason = order.why;
  progress_.restarts_used = order.restarts_used;
  for (const Incarnation incarnation : round_.to_run) {
    const Node* const node = roster_.find(incarnation);
    if (node == nullptr) continue;
    if (!round_.ended.contains(incarnation) || order.culprit) send(*node, order, out);
  }
  // A node that stops workers reports this itself, for all.
  const Incarnation self = context_.self.incarnation;
  const bool is_to_stop = round_.is_to_run(self) && !round_.ended.contains(self);
  if (!order.restarts || order.culprit || is_to_stop) return;
  out.emplace_back(effects::Note{
      .text =
          fmt::format("{}; next: restarting the workers once enough nodes have joined", order.why),
      .is_for_all = true});
}

void Rounds::repeat_order(const Node& node, Effects& out) const {
  StopRound order = round_.order;
  order.restarts = order.restarts && !is_last_;
  send(node, order, out);
}

void Rounds::close() {
  ++progress_.attempt;
  progress_.previous_world = progress_.world;
}

TimePoint Rounds::next_deadline(TimePoint after) const {
  EarliestDeadline next(after);
  next.add(restarts_.next_deadline());
  if (timers_.succeeded_at) next.add(*timers_.succeeded_at + context_.policy.notice_delay);
  const bool awaits_newcomers = phase_ == RoundPhase::kRunning && !restarts_.is_pending();
  if (timers_.newcomer_at && awaits_newcomers) {
    next.add(*timers_.newcomer_at + context_.policy.newcomer_pause);
  }
  return next.at();
}

}  // namespace ddprun
