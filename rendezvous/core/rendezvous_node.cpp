#include "rendezvous/core/rendezvous_node.hpp"

#include "base/check.hpp"
#include "base/exit_status.hpp"
#include "rendezvous/core/far_ahead.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace ddprun {
namespace {

using namespace std::chrono_literals;

constexpr auto kUnheardWait = 5s;  // for a node of the job to be heard, before people are told

}  // namespace

RendezvousNode::RendezvousNode(RendezvousPolicy policy)
    : policy_(std::move(policy)),
      member_(policy_),
      election_(policy_, member_),
      notices_(policy_, member_),
      admission_(policy_) {}

void RendezvousNode::apply(const Event& event, TimePoint now, Effects& out) {
  if (waits_for_instance() && member_.search().waits_at_survivor())
    hears_of_instance(now);  // until now
  std::visit([&](const auto& what) { on(what, now); }, event);
  if (admission_.refuses_all()) {
    route(now, out);
    return admission_.consider_end(now, out);
  }
  election_.drop_silent_callers(now, from_member_);
  route(now, out);
  if (!coordinator_) election_.mind_replacements(now);
  forget_instance(now);
  mind_election(now);
  const bool is_searching = !coordinator_ && member_.searches_for_leader(now);
  notices_.mind_search(is_searching, now, from_member_);
  route(now, out);
  mind_leadership(now, out);
}

void RendezvousNode::on(const Begin& event, TimePoint now) {
  member_.set_unfit(event.unfit);
  if (!policy_.cannot_host.empty()) return admission_.begin_to_refuse_all(now, from_member_);
  if (policy_.bootstraps) return bootstrap(now);
  member_.begin(now, from_member_);
}

void RendezvousNode::on(const StoreReached& /*event*/, TimePoint /*now*/) {
  if (coordinator_) coordinator_->store_reached();
}

/// Once others have begun the job it is too late: this node joins them.
void RendezvousNode::on(const BecameHost& event, TimePoint now) {
  if (!may_bootstrap()) return;
  policy_.master = event.master;
  member_.listen_at(event.listens);
  bootstrap(now);
}

bool RendezvousNode::may_bootstrap() const {
  return !coordinator_ && !heard_of_instance_at_ && !member_.instance().exists() &&
         !member_.has_ended();
}

/// It never had a leader in that instance.
bool RendezvousNode::waits_for_instance() const {
  return heard_of_instance_at_ && !coordinator_ && member_.voter_state().obeyed.term == 0 &&
         !member_.has_ended();
}

/// An instance of which no node is heard any more has ended, as far as this node can know: it is
/// like a node that starts now.
void RendezvousNode::forget_instance(TimePoint now) {
  if (!waits_for_instance() || now < forgets_instance_at()) return;
  heard_of_instance_at_.reset();
  from_member_.emplace_back(effects::Note{
      .text = fmt::format(
          "job '{}' had begun before, and none of the nodes that took part was heard by {} for "
          "{:.0f} s; it starts from the beginning",
          policy_.job,
          policy_.node.host,
          to_seconds(policy_.search_timeout)),
      .is_for_all = true});
  member_.forget_survivors(now, from_member_);
  if (hosts_) bootstrap(now);
}

/// Leads the first term.
void RendezvousNode::bootstrap(TimePoint now) {
  hosts_ = true;
  ElectionResult election_result;
  election_result.instance = {
      .bootstrap_leader = member_.node().incarnation, .bootstrapped_ms = policy_.bootstrapped_ms};
  election_result.term = 1;
  election_result.voter_sets.push_back(
      {.round = {},
       .size = 1,
       .members = {member_.node().incarnation},
       .half_suffices = false,
       .tie_breaker = {}});
  lead(election_result, now);
}

void RendezvousNode::lead(const ElectionResult& election_result, TimePoint now) {
  Coordinator& leads = coordinator_.emplace(policy_, member_.node(), election_result, now);
  leads.join(kSelfLink, member_.voter().hello(), now, from_coordinator_);
  member_.lead(election_result.instance, election_result.term, now, from_member_);
  notices_.lead(election_result.term, now);
  const auto waiting = election_.end();
  // Newcomers come last: one may have the rank of a node whose vote is needed.
  for (const bool is_newcomer : {false, true}) {
    for (const auto& [link, caller] : waiting) {
      const VoterState& voter_state = caller.hello.voter_state;
      const Instance& theirs = voter_state.instance;
      if (is_newcomer != (voter_state.offered.round.number == 0)) continue;
      if (!theirs.exists() || theirs == election_result.instance) {
        leads.join(link, caller.hello, now, from_coordinator_);
      } else {
        greet_survivor(link, caller.hello, now);
      }
    }
  }
}

/// This node bootstrapped a job that had begun before, and has started no round.
void RendezvousNode::give_way(TimePoint now) {
  if (!coordinator_) return;
  hang_up_on_nodes(from_member_);
  coordinator_.reset();
  member_.abdicate(now, from_member_);
}

/// This node does not lead them any more. REQUIRES: it did.
void RendezvousNode::hang_up_on_nodes(Effects& out) const {
  DDPRUN_CHECK(coordinator_.has_value());
  for (const auto& [incarnation, node] : coordinator_->nodes()) {
    const bool is_other = node.link && *node.link != kSelfLink;
    if (is_other) out.emplace_back(effects::Close{.link = *node.link});
  }
}

void RendezvousNode::on(const Connected& event, TimePoint now) {
  if (notices_.connected(event.link, leader(), now, from_member_)) return;
  member_.connected(event.link, now, from_member_);
}

void RendezvousNode::on(const Closed& event, TimePoint now) {
  notices_.closed(event.link);
  election_.closed(event.link);
  if (coordinator_) coordinator_->lost(event.link, now, from_coordinator_);
  member_.closed(event.link, event.why, event.is_foreign, now, from_member_);
}

void RendezvousNode::on(const Received& event, TimePoint now) {
  if (auto why = why_far_ahead(event.message, member_.voter_state()); !why.empty()) {
    from_member_.emplace_back(effects::Close{.link = event.link});
    return on(Closed{.link = event.link, .why = std::move(why)}, now);
  }
  const bool from_our_call = static_cast<std::uint64_t>(event.link) % 2 == 1;
  const auto* const redirect = std::get_if<Redirect>(&event.message);
  if (redirect != nullptr && redirect->has_begun && from_our_call) hears_of_instance(now);
  if (from_our_call) {
    member_.received(event.link, event.message, now, from_member_);
    if (member_.follows_another() && member_.knows_that_it_has_begun()) hears_of_instance(now);
    return;
  }
  if (const auto* hello = std::get_if<Hello>(&event.message)) return greet(event.link, *hello, now);
  if (redirect != nullptr) return on_redirect(event.link, *redirect, now);
  if (const auto* survivor = std::get_if<Survivor>(&event.message)) {
    return on_survivor(event.link, *survivor, now);
  }
  if (const auto* vote = std::get_if<Vote>(&event.message)) {
    return election_.on(event.link, *vote, now);
  }
  if (const auto* pre_vote = std::get_if<PreVote>(&event.message)) {
    return election_.on(event.link, *pre_vote, now, from_member_);
  }
  if (coordinator_) coordinator_->received(event.link, event.message, now, from_coordinator_);
}

/// This node's leader, as others are told. An elected leader's instance has begun: a round may have
/// been started unseen.
std::optional<Redirect> RendezvousNode::leader() const {
  auto known = member_.leader();
  if (known && coordinator_) known->has_begun = coordinator_->has_begun();
  return known;
}

/// While this node does not lead.
void RendezvousNode::mind_election(TimePoint now) {
  if (coordinator_) return;
  election_.mind_turn(now, from_member_);
  if (election_.has_callers()) {
    if (const auto known = leader()) {
      election_.send_away(*known, from_member_);
    } else {
      election_.report_awaited(now, from_member_);
    }
  }
  if (const auto result = election_.mind_candidacy(now, from_member_)) return lead(*result, now);
  election_.mind_quorum_loss(loss_of_instance(now), now, from_member_);
}

/// Why the instance that this node waits for has no leader, once none of its nodes is heard.
std::optional<QuorumLoss> RendezvousNode::loss_of_instance(TimePoint now) const {
  if (!waits_for_instance() || !heard_of_instance_at_) return std::nullopt;
  if (now < *heard_of_instance_at_ + kUnheardWait) return std::nullopt;
  return QuorumLoss{
      .why = fmt::format("none of the nodes that took part is heard by {}", policy_.node.host),
      .ends = fmt::format(
          "one of them is heard again, or none was for {:.0f} s and the job starts from the "
          "beginning",
          to_seconds(policy_.search_timeout))};
}

void RendezvousNode::on(const FenceHeld& event, TimePoint /*now*/) {
  election_.fence_held(event.instance, event.round, event.holder);
}

void RendezvousNode::on(const LifelineOpened& event, TimePoint now) {
  const bool is_ours = coordinator_ && coordinator_->term() == event.leadership.term &&
                       event.leadership.leader == member_.node().incarnation;
  if (is_ours) coordinator_->line_opened(event.node, now, from_coordinator_);
}

void RendezvousNode::on(const LifelineEnded& event, TimePoint now) {
  if (coordinator_) return coordinator_->line_ended(event.node, now, from_coordinator_);
  member_.line_ended(event.node, now, from_member_);
}

void RendezvousNode::on(const LifelineDropped& event, TimePoint /*now*/) {
  if (coordinator_) coordinator_->line_dropped(event.node);
}

void RendezvousNode::on(const Goodbye& event, TimePoint now) {
  member_.goodbye(event.leadership, now, from_member_);
}

void RendezvousNode::on(const Workers& event, TimePoint now) {
  member_.workers(event.news, now, from_member_);
}

void RendezvousNode::on(const FailureRead& event, TimePoint /*now*/) {
  // The leader has it on its console already.
  if (!coordinator_ && policy_.has_own_console) member_.failure_read(event.text, from_member_);
}

void RendezvousNode::on(const Signalled& event, TimePoint now) {
  member_.signalled(event.signal, event.whole_job, now, from_member_);
}

void RendezvousNode::on(const Tick& /*event*/, TimePoint now) {
  if (admission_.refuses_all()) return;
  if (coordinator_) coordinator_->tick(now, from_coordinator_);
  if (coordinator_) set_own_lease(now);
  member_.tick(now, from_member_);
}

void RendezvousNode::set_own_lease(TimePoint now) {
  if (!coordinator_) return;
  const TimePoint until = coordinator_->leads_until();
  const TimePoint heard_at = now < until ? now : coordinator_->majority_heard_at();
  member_.set_own_lease(until, heard_at, now, from_member_);
}

/// Passes the effects of the parts to each other, or to the shell.
void RendezvousNode::route(TimePoint now, Effects& out) {
  while (!from_coordinator_.empty() || !from_member_.empty()) {
    const bool is_from_coordinator = !from_coordinator_.empty();
    if (is_from_coordinator) set_own_lease(now);
    routed_.swap(is_from_coordinator ? from_coordinator_ : from_member_);
    for (Effect& effect : routed_) {
      auto const* const send = std::get_if<effects::Send>(&effect);
      if (send == nullptr || send->to != kSelfLink) {
        out.push_back(std::move(effect));
      } else if (is_from_coordinator) {
        member_.received(kSelfLink, send->message, now, from_member_);
      } else if (coordinator_) {
        coordinator_->received(kSelfLink, send->message, now, from_coordinator_);
      }
    }
    routed_.clear();
  }
}

void RendezvousNode::mind_leadership(TimePoint now, Effects& out) {
  if (!coordinator_) return;
  if (coordinator_->is_fenced()) {
    hang_up_on_nodes(out);
    out.emplace_back(effects::Note{
        .text = fmt::format(
            "term {}: no majority heard for {:.1f} s; this node stops leading",
            coordinator_->term(),
            to_seconds(now - coordinator_->majority_heard_at()))});
    auto past = coordinator_->past();
    coordinator_.reset();
    member_.depose(std::move(past), now, from_member_);
    return route(now, out);
  }
  set_own_lease(now);
  if (coordinator_) notices_.announce(*coordinator_, now, from_member_);
  route(now, out);
}

std::optional<TimePoint> RendezvousNode::next_deadline() const {
  if (member_.has_ended()) return std::nullopt;
  if (admission_.refuses_all()) return admission_.refuses_until();
  TimePoint next = member_.next_deadline().value_or(kNever);
  if (coordinator_) {
    next = std::min({next, notices_.announce_at(), coordinator_->next_deadline().value_or(kNever)});
  } else {
    next = std::min({next, election_.next_deadline(), notices_.endpoint_at()});
    if (waits_for_instance()) next = std::min(next, forgets_instance_at());
  }
  if (next == kNever) return std::nullopt;
  return next;
}

}  // namespace ddprun
