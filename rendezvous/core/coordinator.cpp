#include "rendezvous/core/coordinator.hpp"

#include "base/exit_status.hpp"
#include "base/signal_name.hpp"
#include "base/worker_contract.hpp"
#include "rendezvous/core/earliest_deadline.hpp"
#include "rendezvous/core/gathering_text.hpp"
#include "rendezvous/core/quorum.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <cstddef>
#include <utility>
#include <vector>

namespace ddprun {
namespace {

std::string spelled(const FailureNews& failure) {
  return fmt::format(
      "rank {} on {} (local rank {}, pid {}) {}",
      failure.rank,
      failure.host,
      failure.local_rank,
      failure.pid,
      failure.how);
}

}  // namespace

Coordinator::Coordinator(
    const RendezvousPolicy& policy,
    NodeInfo self,
    const ElectionResult& election_result,
    TimePoint now)
    : context_{
          .policy = policy,
          .self = std::move(self),
          .instance = election_result.instance,
          .term = election_result.term},
      lease_(
          context_.self.incarnation,
          {.lease = policy.lease, .margin = policy.margin},
          election_result.voter_sets,
          now),
      roster_(context_),
      claims_(context_, roster_),
      rounds_(context_, roster_, lease_, election_result),
      gathering_(context_, roster_, rounds_, election_result, now),
      end_(context_, roster_, lease_, election_result.verdict) {}

// Nodes come and go. ---------------------------------------------------------------------------

void Coordinator::join(Link link, const Hello& hello, TimePoint now, Effects& out) {
  if (is_fenced()) return;
  const Node* const holder = claims_.holder_of_rank(hello.node);
  if (holder != nullptr) return postpone(link, hello, *holder, now, out);
  gathering_.hold_no_more_for(hello.node);
  const Incarnation incarnation = hello.node.incarnation;
  const auto [node, is_new, replaced] = roster_.join(link, hello, now);
  if (replaced) {
    out.emplace_back(effects::Close{.link = *replaced});
    rounds_.member_gone(incarnation, now, out);
  }
  gathering_.joined(hello, is_new);
  lease_.join(incarnation, hello.voter_state, now);
  if (incarnation != self()) {
    if (is_new) roster_.report_newcomer(hello.node, out);
    out.emplace_back(effects::Absence{.host = hello.node.host, .is_over = true});
    rounds_.welcome(node, out);
  }
  end_.joined(node, is_new, now, out);
  advance(now, out);
}

/// The node rank that the caller asks for is that of `holder`.
void Coordinator::postpone(
    Link link, const Hello& hello, const Node& holder, TimePoint now, Effects& out) {
  claims_.add(link, hello, now);
  if (holder.info.incarnation == self()) return refuse_claims(holder, out);
  out.emplace_back(effects::Send{
      .to = link,
      .message = Wait{.node = self(), .at = context_.self.listens, .elsewhere = false}});
}

void Coordinator::refuse_claims(const Node& holder, Effects& out) {
  const Incarnation incarnation = holder.info.incarnation;
  const TimePoint replied_at =
      incarnation == self() ? kNever : lease_.answered_at(incarnation).value_or(TimePoint());
  const std::string refused = claims_.refuse(holder, replied_at, out);
  const bool may_shrink = context_.policy.nodes.min() < context_.policy.nodes.max();
  if (refused.empty() || has_begun() || may_shrink) return;
  // Nothing runs yet, and nothing would until the join timeout: the rank that one of them was to
  // have is missing.
  decide(
      {.exit_status = kExitUsage,
       .why = fmt::format(
           "--node-rank {} was given to {}{}; give each node a rank of its own",
           holder.info.node_rank.value_or(0),
           named(holder.info),
           refused)},
      out);
}

void Coordinator::admit_claims(TimePoint now, Effects& out) {
  while (const auto caller = claims_.take_free()) {
    join(caller->first, caller->second, now, out);
  }
}

void Coordinator::lost(Link link, TimePoint now, Effects& out) {
  claims_.lost(link);
  Node* const node = roster_.find(link);
  if (node == nullptr || is_fenced()) return;
  roster_.disconnect(*node);
  // Suspected, no more: a round is never started on the strength of a closed connection.
  rounds_.member_gone(node->info.incarnation, now, out);
  advance(now, out);
}

void Coordinator::line_opened(Incarnation node, TimePoint now, Effects& out) {
  if (is_fenced() || node == self()) return;
  if (roster_.lifeline_opened(node)) advance(now, out);
}

void Coordinator::line_ended(Incarnation node, TimePoint now, Effects& out) {
  if (is_fenced() || node == self()) return;
  roster_.lifeline_gone(node);
  if (!context_.policy.trusts_reset) return;
  roster_.lost().died(node);
  if (!nodes().contains(node)) return;
  lease_.died(node, now);
  remove(node, "all its processes have ended", now, out);
  advance(now, out);
}

void Coordinator::remove(
    Incarnation incarnation, const std::string& why, TimePoint now, Effects& out) {
  const Node& node = nodes().at(incarnation);
  const std::string host = node.info.host;
  const int group_rank = node.group_rank;
  const auto link = roster_.remove(incarnation);
  if (link) out.emplace_back(effects::Close{.link = *link});
  lease_.forget(incarnation);
  const bool is_missed = rounds_.lost(incarnation, now, out);
  out.emplace_back(
      effects::Note{.text = fmt::format("node {} (group rank {}): {}", host, group_rank, why)});
  if (is_missed) {
    const std::string lost = fmt::format("node {} is lost: {}", host, why);
    if (phase() == Phase::kRunning) rounds_.restart_without_charge(lost, now, out);
    stop(end_.shorten_grace(lost, rounds_.round()), now, out);
  }
  admit_claims(now, out);
}

void Coordinator::expire(TimePoint now, Effects& out) {
  for (const Incarnation incarnation : roster_.overdue(now)) {
    const Node& node = nodes().at(incarnation);
    roster_.fell_silent(node, end_.is_ending(), now, out);
    remove(
        incarnation,
        fmt::format("not heard for {:.1f} s", to_seconds(now - node.heard_at)),
        now,
        out);
  }
}

// What nodes send. -----------------------------------------------------------------------------

void Coordinator::received(Link link, const Message& message, TimePoint now, Effects& out) {
  Node* const node = roster_.find(link);
  if (node == nullptr || is_fenced()) return;
  node->heard_at = now;
  std::visit([&](const auto& what) { on(*node, what, now, out); }, message);
  if (!claims_.empty()) refuse_claims(*node, out);
  // Most messages are heartbeats, which change nothing but the lease.
  const bool is_heartbeat =
      std::holds_alternative<Heartbeat>(message) || std::holds_alternative<Confirm>(message);
  if (is_heartbeat && phase() == Phase::kRunning && lease_.is_confirmed()) {
    static_cast<void>(keep_lead(now, out));
  } else {
    advance(now, out);
  }
}

void Coordinator::on(Node& node, const Heartbeat& heartbeat, TimePoint now, Effects& out) {
  const Incarnation incarnation = node.info.incarnation;
  lease_.heartbeat(incarnation, heartbeat, now);
  if (heartbeat.steps) node.steps = *heartbeat.steps;
  if (incarnation != self()) send(node, lease_.answer(incarnation), out);
}

void Coordinator::on(Node& node, const Confirm& confirm, TimePoint now, Effects& /*out*/) {
  lease_.confirm(node.info.incarnation, confirm, now);
}

void Coordinator::on(
    Node& node, const Acknowledge& acknowledge, TimePoint /*now*/, Effects& /*out*/) {
  rounds_.acknowledged(node.info.incarnation, acknowledge);
}

void Coordinator::on(Node& node, const WorkerNews& news, TimePoint now, Effects& out) {
  const bool is_first = !node.has_reported();
  if (node.news.round != news.round) node.steps.clear();
  node.news = news;
  node.reported_on = node.link;
  if (!rounds_.reported(node, is_first, now, out)) return;
  const Round& round = rounds_.round();
  const bool has_failed = news.round == round.id && news.failure;
  if (phase() == Phase::kStopping) {
    if (has_failed) stop(end_.shorten_grace(spelled(*news.failure), round), now, out);
    if (has_failed) rounds_.restarts().learned(*news.failure);
    if (is_first && !node.is_idle()) rounds_.repeat_order(node, out);
    return;
  }
  if (has_failed) {
    rounds_.restarts().failed(
        {.culprit = *news.failure,
         .ran_for = now - round.started_at,
         .reached_store = round.reached_store},
        now);
    return consider_failure(now, out);
  }
  // Nodes report what follows from a failure as well, and the failure is the reason.
  if (rounds_.restarts().is_pending()) return;
  if (node.is_idle() && !round.succeeded.contains(node.info.incarnation)) {
    rounds_.restart_without_charge(
        fmt::format("node {} has stopped its workers", node.info.host), now, out);
  }
}

void Coordinator::on(Node& node, const FailureText& failure, TimePoint /*now*/, Effects& out) {
  if (failure.round == rounds_.round().id) end_.text_came();
  if (!context_.policy.has_own_console || failure.lines.empty()) return;
  out.emplace_back(effects::ShowFailure{.host = node.info.host, .failure = failure});
}

void Coordinator::on(Node& node, const VerdictHeard& /*heard*/, TimePoint /*now*/, Effects&) {
  end_.heard(node.info.incarnation);
}

void Coordinator::on(Node& node, const Leaving& leaving, TimePoint now, Effects& out) {
  const Incarnation incarnation = node.info.incarnation;
  const std::string& host = node.info.host;
  const bool again = node.is_leaving();
  if (again && leaving.signal == SIGKILL) {
    if (phase() == Phase::kStopping) stop(end_.kill(host, rounds_.round()), now, out);
    return;
  }
  end_.leaves(incarnation, again);
  if (again) return;
  node.leaving_by = leaving.signal;
  const auto stays = [](const auto& entry) {
    return entry.second.link.has_value() && !entry.second.is_leaving();
  };
  const auto remain = std::ranges::count_if(nodes(), stays);
  // Before the first round nothing is lost with it: the others wait on, for its replacement.
  const bool is_missed = has_begun() && remain < context_.policy.nodes.min();
  if (leaving.whole_job || is_missed) return end_by(leaving.signal, host, now, out);
  rounds_.member_gone(incarnation, now, out);
  const Round& round = rounds_.round();
  const bool runs = phase() == Phase::kRunning && round.is_to_run(incarnation) &&
                    !round.ended.contains(incarnation);
  if (!runs) return;
  rounds_.restart_without_charge(
      fmt::format("node {} leaves: it was told to stop by {}", host, signal_name(leaving.signal)),
      now,
      out);
}

// Failures, and the end. -----------------------------------------------------------------------

void Coordinator::consider_failure(TimePoint now, Effects& out) {
  const auto first = rounds_.restarts().take_due(now, rounds_.round().has_ended());
  if (first) fail(*first, now, out);
}

void Coordinator::fail(const Restarts::Failure& first, TimePoint now, Effects& out) {
  const FailureNews& culprit = first.culprit;
  const std::string why = spelled(culprit);
  if (const auto silent = rounds_.silent_host(now); silent && culprit.can_be_retried) {
    return rounds_.restart_without_charge(
        fmt::format("node {} is silent, and {}", *silent, why), now, out);
  }
  roster_.record_failure(culprit, now);
  StopRound order = rounds_.restarts().charge(first, now - rounds_.round().started_at);
  order.why = why;
  if (order.restarts) {
    if (order.pause > Duration()) gathering_.pause_until(now + order.pause);
    return stop(std::move(order), now, out);
  }
  const Node* const node = roster_.where_began(culprit);
  const bool is_elsewhere = node != nullptr && node->info.incarnation != self();
  if (context_.policy.has_own_console && is_elsewhere) end_.await_text(node->info.incarnation);
  decide({.exit_status = culprit.exit_status, .why = why}, out, std::move(order));
}

/// After a preemption notice the exit status is known when the workers have ended.
void Coordinator::end_by(int signal, const std::string& host, TimePoint now, Effects& out) {
  if (end_.is_ending()) return;
  Verdict verdict{
      .exit_status = exit_status_of_signal(signal),
      .why = fmt::format("{} was told to stop by {}", host, signal_name(signal))};
  if (phase() != Phase::kRunning || !contract::is_notice(signal)) {
    return decide(std::move(verdict), out);
  }
  StopRound order;
  order.why = verdict.why;
  order.notice = signal;
  end_.notice(std::move(verdict));
  const auto failed_first = rounds_.restarts().take();
  stop(std::move(order), now, out);
  if (failed_first && !failed_first->culprit.has_saved()) {
    stop(end_.shorten_grace(spelled(failed_first->culprit), rounds_.round()), now, out);
  }
}

void Coordinator::stop(std::optional<StopRound> order, TimePoint now, Effects& out) {
  if (order) rounds_.apply(RoundEvent::kStop, now, out, *std::move(order));
}

void Coordinator::decide(Verdict verdict, Effects& out, StopRound order) {
  if (end_.verdict()) return;
  order.why = verdict.why;
  end_.decide(std::move(verdict), out);
  rounds_.apply(RoundEvent::kVerdict, seen_, out, std::move(order));
}

void Coordinator::end_as_double(const std::string& why, Effects& out) {
  decide({.exit_status = kExitTryAgain, .why = why}, out);
}

// What follows from where things stand. --------------------------------------------------------

/// Yields false while it may not act.
bool Coordinator::keep_lead(TimePoint now, Effects& out) {
  seen_ = now;
  expire(now, out);
  // Nobody can decide otherwise once a majority knows the verdict: to send it takes no lease. The
  // nodes that got it leave, and take the lease with them.
  return end_.is_final() || lease_.renew(now);
}

void Coordinator::advance(TimePoint now, Effects& out) {
  gathering_.wakes(now);
  act(now, out);
  if (gathering_.may_begin_elsewhere()) {
    gathering_.sleeps_until(next_deadline().value_or(kNever));
  }
}

/// In the order of a round's life, so that one event can take it through several phases.
void Coordinator::act(TimePoint now, Effects& out) {
  if (!keep_lead(now, out)) return;
  roster_.give_up_lifelines(now, out);
  const Round& round = rounds_.round();
  if (phase() == Phase::kStopping && round.has_ended()) {
    rounds_.apply(RoundEvent::kAllEnded, now, out);
    gathering_.begin(now);
    end_.round_ended(now);
  }
  if (phase() == Phase::kGathering) {
    if (auto verdict = end_.verdict_after_notice(round)) decide(*std::move(verdict), out);
  }
  end_.dismiss_leavers(phase(), out);
  if (rounds_.is_gathering()) gather(now, out);
  if (rounds_.may_start(now)) rounds_.apply(RoundEvent::kAcknowledged, now, out);
  consider_failure(now, out);
  if (phase() == Phase::kRunning) {
    if (!round.has_succeeded()) {
      rounds_.restart_for_newcomers(now, out);
    } else if (rounds_.is_success(now)) {
      decide({.exit_status = kExitOk, .why = ""}, out);
    }
  }
  end_.spread(phase(), now, out);
}

void Coordinator::gather(TimePoint now, Effects& out) {
  Gathering::Step step = gathering_.step(lease_, now, out);
  if (step.verdict) decide(*std::move(step.verdict), out);
  if (step.offers) rounds_.apply(RoundEvent::kEnoughNodes, now, out);
}

void Coordinator::tick(TimePoint now, Effects& out) {
  if (!is_fenced()) advance(now, out);
}

std::optional<TimePoint> Coordinator::next_deadline() const {
  if (is_fenced()) return std::nullopt;
  EarliestDeadline next(seen_);
  next.add(lease_.deadline());
  next.add(roster_.next_deadline(seen_));
  next.add(gathering_.next_deadline(seen_));
  next.add(rounds_.next_deadline(seen_));
  next.add(end_.next_deadline(seen_));
  if (next.at() == kNever) return std::nullopt;
  return next.at();
}

// What is known of the leadership. -------------------------------------------------------------

PastLeadership Coordinator::past() const {
  PastLeadership past;
  for (const auto& [incarnation, node] : nodes()) {
    if (incarnation == self()) continue;
    past.nodes.emplace(
        incarnation, PastLeadership::Node{.info = node.info, .heard_at = node.heard_at});
  }
  past.nodes.insert(lost_nodes().silent().begin(), lost_nodes().silent().end());
  past.dead = lost_nodes().dead();
  past.voter_sets = lease_.voter_sets();
  if (phase() == Phase::kOffered) past.voter_sets.push_back(rounds_.round().voters);
  past.granted_until = lease_.granted_until();
  // A quarter of the margin for clocks that differ.
  const RendezvousPolicy& policy = context_.policy;
  past.over_for_all_at = lease_.spoke_at() + policy.lease + policy.margin * 5 / 4;
  return past;
}

TimePoint Coordinator::majority_heard_at() const {
  TimePoint heard = kNever;
  for (const KnownVoterSet& voters : lease_.voter_sets()) {
    std::vector<TimePoint> of_each;
    for (const Incarnation member : voters.members) {
      const Node* const node = roster_.find(member);
      if (node == nullptr) continue;
      of_each.push_back(member == self() ? kNever : node->heard_at);
    }
    const auto of_quorum = quorum_heard_at(voters, of_each);
    if (!of_quorum) return leads_until() - context_.policy.lease;
    heard = std::min(heard, *of_quorum);
  }
  return heard;
}

}  // namespace ddprun
