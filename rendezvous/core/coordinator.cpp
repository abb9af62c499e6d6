#include "rendezvous/core/coordinator.hpp"

#include "base/exit_status.hpp"
#include "base/signal_name.hpp"
#include "base/suspicion.hpp"
#include "base/worker_contract.hpp"
#include "rendezvous/core/gathering_text.hpp"
#include "rendezvous/core/quorum_loss.hpp"
#include "rendezvous/core/rank_plan.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <cstddef>
#include <functional>
#include <set>
#include <utility>

namespace ddprun {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t kSuccessorsMax = 8;
constexpr std::size_t kHostsBytesMax = 32'768;  // of DDPRUN_NODES
constexpr Duration kTextPatience = 3s;          // stderr may take 0.2 s to read, a slow disk longer
constexpr auto kQuietLastCall = 2s;             // most come within that, and nobody need be told
constexpr auto kQuietWait = 5s;  // for other nodes, before whoever started this one is told

std::string spelled(const FailureNews& failure) {
  return fmt::format(
      "rank {} on {} (local rank {}, pid {}) {}",
      failure.rank,
      failure.host,
      failure.local_rank,
      failure.pid,
      failure.how);
}

/// Others may run the job, or wait for one of its nodes, while as many nodes come anew as would
/// begin it at once. In a step of Slurm's no node comes anew.
bool may_be_elsewhere(const RendezvousPolicy& policy) {
  return !policy.meet.empty() && policy.node.workload.step.empty();
}

}  // namespace

Coordinator::Coordinator(
    const RendezvousPolicy& policy,
    NodeInfo self,
    const ElectionResult& election_result,
    TimePoint now)
    : policy_(policy),
      self_(std::move(self)),
      instance_(election_result.instance),
      term_(election_result.term),
      lease_(
          self_.incarnation,
          {.lease = policy.lease, .margin = policy.margin},
          election_result.voter_sets,
          now),
      last_round_(election_result.last_round),
      progress_(election_result.progress),
      budget_(
          policy.max_restarts,
          policy.restart_window,
          std::min(policy.max_restarts, election_result.progress.restarts_used)),
      first_failure_(policy.notice_delay),
      has_history_(election_result.has_history),
      met_(election_result.met),
      round_hosts_(election_result.hosts),
      expire_at_(kNever),
      gather_since_(now),
      regrouped_(election_result.newest),
      heard_(election_result.heard),
      unheard_(election_result.unheard),
      regroup_until_(now + election_result.wait),
      verdict_(election_result.verdict) {
  if (!has_history_ && !policy.survivors.empty()) {
    not_before_ = now + survivors_heard_within(policy.lease);
  } else if (!has_history_ && may_be_elsewhere(policy)) {
    not_before_ = now + announced_within(policy.lease);
  }
  if (!has_history_) return;
  ++progress_.attempt;
  progress_.previous_world = progress_.world;
  progress_.reason = "the leader was lost";
}

// Who is here. ---------------------------------------------------------------------------------

// A place is not given away while its node may be there (under a lease, or behind a connection that
// is slow): who asks for it waits until that node is lost, or is heard to live. What it said before
// it was killed may come later, from a kernel that lived on: only who confirms an answer that was
// sent since lives.

const Coordinator::Node* Coordinator::holder_of_rank(const NodeInfo& asking) const {
  if (!asking.node_rank || !policy_.ranks_are_places) return nullptr;
  const auto found = std::ranges::find_if(nodes_, [&](const auto& entry) {
    const bool is_other = entry.first != asking.incarnation;
    return is_other && entry.second.info.node_rank == asking.node_rank;
  });
  return found == nodes_.end() ? nullptr : &found->second;
}

/// Yields whether it has to wait for its place.
bool Coordinator::postpone(Link link, const Hello& hello, TimePoint now, Effects& out) {
  const Node* const holder = holder_of_rank(hello.node);
  if (holder == nullptr) return false;
  postponed_.insert_or_assign(link, Postponed{.hello = hello, .since = now});
  if (holder->info.incarnation == self()) {
    refuse_postponed(*holder, out);
    return true;
  }
  out.emplace_back(effects::Send{
      .to = link, .message = Wait{.node = self(), .at = self_.listens, .elsewhere = false}});
  return true;
}

void Coordinator::refuse_postponed(const Node& alive, Effects& out) {
  if (!alive.info.node_rank) return;
  const bool is_self = alive.info.incarnation == self();
  const auto answered_at = lease_.answered_at(alive.info.incarnation);
  std::string twins;
  std::erase_if(postponed_, [&](const auto& entry) {
    const auto& [link, postponed] = entry;
    const Hello& hello = postponed.hello;
    if (hello.node.node_rank != alive.info.node_rank) return false;
    if (!is_self && (!answered_at || *answered_at <= postponed.since)) return false;
    Refuse no{
        .job = policy_.job,
        .exit_status = kExitUsage,
        .why = fmt::format(
            "--node-rank {} is taken by {}; give each node a rank of its own",
            *alive.info.node_rank,
            alive.info.host),
        .instance = instance_};
    out.emplace_back(
        effects::Note{.text = fmt::format("{} was refused: {}", hello.node.host, no.why)});
    out.emplace_back(effects::Send{.to = link, .message = std::move(no)});
    out.emplace_back(effects::Close{.link = link});
    twins += fmt::format(" and {}", named(hello.node));
    return true;
  });
  const bool may_shrink = policy_.nodes.min() < policy_.nodes.max();
  if (twins.empty() || has_history_ || may_shrink) return;
  // Nothing runs yet, and nothing would until the join timeout: the rank that one of them was to
  // have is missing.
  decide(
      {.exit_status = kExitUsage,
       .why = fmt::format(
           "--node-rank {} was given to {}{}; give each node a rank of its own",
           *alive.info.node_rank,
           named(alive.info),
           twins)},
      {},
      out);
}

void Coordinator::admit_postponed(TimePoint now, Effects& out) {
  for (;;) {
    const auto next = std::ranges::find_if(postponed_, [this](const auto& entry) {
      return holder_of_rank(entry.second.hello.node) == nullptr;
    });
    if (next == postponed_.end()) return;
    const auto admitted = postponed_.extract(next);
    join(admitted.key(), admitted.mapped().hello, now, out);
  }
}

void Coordinator::hold_for(const NodeInfo& node, TimePoint now) {
  // By then it has forgotten the other instance and comes here, or is gone (member.cpp).
  const TimePoint until = now + 3 * (policy_.lease + policy_.margin);
  held_for_.insert_or_assign(place_of(node), until);
}

void Coordinator::hold_no_more_for(const NodeInfo& node) {
  held_for_.erase(place_of(node));
}

void Coordinator::end_as_double(const std::string& why, Effects& out) {
  decide({.exit_status = kExitTryAgain, .why = why}, {}, out);
}

PastLeadership Coordinator::past() const {
  PastLeadership past;
  for (const auto& [incarnation, node] : nodes_) {
    if (incarnation == self()) continue;
    past.nodes.emplace(
        incarnation, PastLeadership::Node{.info = node.info, .heard_at = node.heard_at});
  }
  past.nodes.insert(lost_.silent().begin(), lost_.silent().end());
  past.dead = lost_.dead();
  past.voter_sets = lease_.voter_sets();
  if (phase_ == Phase::kOffered) past.voter_sets.push_back(round_.voters);
  past.granted_until = lease_.granted_until();
  // A quarter of the margin for clocks that differ.
  past.over_for_all_at = lease_.spoke_at() + policy_.lease + policy_.margin * 5 / 4;
  return past;
}

void Coordinator::note_newcomer(const NodeInfo& node, Effects& out) const {
  out.emplace_back(effects::Note{
      .text = fmt::format(
          "node {} ({}) joins; {} of {} to {} nodes are there",
          node.host,
          node.listens.to_string(),
          nodes_.size(),
          policy_.nodes.min(),
          policy_.nodes.max())});
  // A second job of the same program, or flags that differ by node as they may.
  const std::string& here = self_.workload.command;
  if (node.workload.command == here) return;
  out.emplace_back(effects::Note{
      .text = fmt::format(
          "node {} runs {}, and the leader {}: {}",
          node.host,
          node.workload.command,
          self_.host,
          here)});
}

void Coordinator::join(Link link, const Hello& hello, TimePoint now, Effects& out) {
  if (is_fenced()) return;
  if (postpone(link, hello, now, out)) return;
  hold_no_more_for(hello.node);
  const Incarnation incarnation = hello.node.incarnation;
  const auto [found, is_new] = nodes_.try_emplace(incarnation);
  Node& node = found->second;
  lost_.joined(incarnation);
  if (node.link) {  // it connected again before the end of the old connection was seen
    links_.erase(*node.link);
    out.emplace_back(effects::Close{.link = *node.link});
    cancel_offer_to(incarnation);
  }
  if (is_new) {
    node.joined = ++joins_;
    node.joined_at = now;
    node.group_rank = hello.voter_state.group_rank;
    last_call_until_.reset();  // a newcomer restarts it
    look_for_silent(node, hello);
  }
  const VoterSet& offered = hello.voter_state.offered;
  const bool is_counted = has_history_ && offered.round == regrouped_ && offered.is_member;
  if (is_new && !is_counted) ++met_;
  const bool was_to_run = offered.round == regrouped_ && hello.voter_state.was_to_run;
  if (was_to_run && heard_.insert(incarnation).second) --unheard_;
  node.info = hello.node;
  node.link = link;
  node.heard_at = now;
  node.has_told = false;
  lease_.join(incarnation, hello.voter_state, now);
  links_.emplace(link, &node);
  if (incarnation != self() && !lines_.contains(incarnation)) {
    node.line_due = now + policy_.line_patience;
    line_due_ = std::min(line_due_, *node.line_due);
  }
  if (incarnation != self()) {
    if (is_new) note_newcomer(hello.node, out);
    out.emplace_back(effects::Absence{.host = hello.node.host, .is_over = true});
    expire_at_ = std::min(expire_at_, now + policy_.lease + policy_.margin);
    welcome(node, out);
  }
  if (verdict_) send(node, VerdictNews{.verdict = *verdict_, .is_final = is_final_}, out);
  // Whoever comes late has as long as the others to hear it.
  if (is_final_ && incarnation != self()) final_at_ = std::max(final_at_, now);
  advance(now, out);
}

void Coordinator::welcome(const Node& node, Effects& out) const {
  send(
      node,
      Welcome{
          .instance = instance_,
          .term = term_,
          .leader = self_,
          .lease = policy_.lease,
          .margin = policy_.margin,
          .successors = successors(),
          .has_begun = has_begun(),
          .is_full = is_full_without(node.info.incarnation)},
      out);
}

void Coordinator::received(Link link, const Message& message, TimePoint now, Effects& out) {
  Node* const node = find(link);
  if (node == nullptr || is_fenced()) return;
  node->heard_at = now;
  std::visit([&](const auto& what) { on(*node, what, now, out); }, message);
  if (!postponed_.empty()) refuse_postponed(*node, out);
  // Most of what comes is heartbeats, which change nothing but the lease.
  const bool is_heartbeat =
      std::holds_alternative<Heartbeat>(message) || std::holds_alternative<Confirm>(message);
  if (is_heartbeat && phase_ == Phase::kRunning && lease_.is_confirmed()) {
    static_cast<void>(keep_lead(now, out));
  } else {
    advance(now, out);
  }
}

void Coordinator::lost(Link link, TimePoint now, Effects& out) {
  postponed_.erase(link);
  Node* const node = find(link);
  if (node == nullptr || is_fenced()) return;
  links_.erase(link);
  node->link.reset();
  node->has_told = false;
  const Incarnation incarnation = node->info.incarnation;
  // Suspected, no more: a round is never started on the strength of a closed connection.
  cancel_offer_to(incarnation);
  advance(now, out);
}

void Coordinator::line_opened(Incarnation incarnation, TimePoint now, Effects& out) {
  if (is_fenced() || incarnation == self()) return;
  lines_.insert(incarnation);
  const auto found = nodes_.find(incarnation);
  if (found == nodes_.end()) return;
  found->second.line_due.reset();
  advance(now, out);
}

/// A node without a lifeline takes part as well: its death, and ours, are then only noticed when
/// the lease is over.
void Coordinator::await_lines(TimePoint now, Effects& out) {
  if (now < line_due_) return;
  line_due_ = kNever;
  for (auto& [incarnation, node] : nodes_) {
    if (!node.line_due) continue;
    if (now < *node.line_due) {
      line_due_ = std::min(line_due_, *node.line_due);
      continue;
    }
    node.line_due.reset();
    out.emplace_back(effects::Note{
        .text = fmt::format(
            "node {}: no lifeline came from there; if it dies, that is noticed after {:.1f} s",
            node.info.host,
            to_seconds(policy_.lease + policy_.margin))});
  }
}

void Coordinator::line_ended(Incarnation incarnation, TimePoint now, Effects& out) {
  if (is_fenced() || incarnation == self()) return;
  lines_.erase(incarnation);
  if (!policy_.trusts_reset) return;
  lost_.died(incarnation);
  if (!nodes_.contains(incarnation)) return;
  lease_.died(incarnation, now);
  remove(incarnation, "nothing of it runs any more", now, out);
  advance(now, out);
}

/// It is not going to acknowledge, or its acknowledgement went with its connection.
void Coordinator::cancel_offer_to(Incarnation node) {
  const bool has_it = phase_ == Phase::kOffered && round_.voters.members.contains(node);
  if (has_it) take_back_offer();
}

void Coordinator::take_back_offer() {
  phase_ = Phase::kGathering;
  lease_.withdraw();
}

void Coordinator::remove(
    Incarnation incarnation, const std::string& why, TimePoint now, Effects& out) {
  const auto found = nodes_.find(incarnation);
  const std::string host = found->second.info.host;
  const int group_rank = found->second.group_rank;
  if (const auto link = found->second.link) {
    links_.erase(*link);
    out.emplace_back(effects::Close{.link = *link});
  }
  nodes_.erase(found);
  lease_.forget(incarnation);
  cancel_offer_to(incarnation);
  out.emplace_back(
      effects::Note{.text = fmt::format("node {} (group rank {}): {}", host, group_rank, why)});
  if (is_to_run(incarnation) && round_.ended.insert(incarnation).second) {
    const std::string lost = fmt::format("node {} is lost: {}", host, why);
    if (phase_ == Phase::kRunning) go_on_without_blame(lost, out);
    if (ending_) shorten_grace(*ending_, lost, out);
  }
  admit_postponed(now, out);
}

void Coordinator::expire(TimePoint now, Effects& out) {
  if (now < expire_at_) return;
  std::vector<Incarnation> overdue;
  expire_at_ = kNever;
  for (const auto& [incarnation, node] : nodes_) {
    if (incarnation == self()) continue;
    const TimePoint at = node.heard_at + policy_.lease + policy_.margin;
    if (now >= at) {
      overdue.push_back(incarnation);
    } else {
      expire_at_ = std::min(expire_at_, at);
    }
  }
  for (const Incarnation incarnation : overdue) {
    const Node& node = nodes_.at(incarnation);
    lost_.fell_silent(node.info, node.heard_at);
    // Where no round was, nothing but the agent can have held the connection.
    const bool has_died = node.group_rank < 0 && !node.link;
    if (!node.is_leaving && !has_died && !is_started_again(node)) {
      lost_.searches(node.info, now + policy_.search_timeout);
    }
    const bool is_ending = node.is_leaving || verdict_ || ending_;
    if (!is_ending && !is_started_again(node)) {
      out.emplace_back(effects::Absence{.host = node.info.host, .is_over = false});
    }
    remove(
        incarnation,
        fmt::format("not heard for {:.1f} s", to_seconds(now - node.heard_at)),
        now,
        out);
  }
}

// Heartbeats, and the lease of the leader. -----------------------------------------------------

void Coordinator::on(Node& node, const Heartbeat& heartbeat, TimePoint now, Effects& out) {
  lease_.heartbeat(node.info.incarnation, heartbeat, now);
  answer(node, out);
}

void Coordinator::on(Node& node, const Confirm& confirm, TimePoint now, Effects& /*out*/) {
  lease_.confirm(node.info.incarnation, confirm, now);
}

TimePoint Coordinator::majority_heard_at() const {
  TimePoint heard = kNever;
  for (const KnownVoterSet& voters : lease_.voter_sets()) {
    std::vector<TimePoint> of_each;
    for (const Incarnation member : voters.members) {
      const auto found = nodes_.find(member);
      if (found == nodes_.end()) continue;
      of_each.push_back(member == self() ? kNever : found->second.heard_at);
    }
    const auto of_quorum = quorum_heard_at(voters, of_each);
    if (!of_quorum) return leads_until() - policy_.lease;
    heard = std::min(heard, *of_quorum);
  }
  return heard;
}

void Coordinator::answer(const Node& node, Effects& out) {
  const bool is_self = node.info.incarnation == self();
  if (!is_self) send(node, lease_.answer(node.info.incarnation), out);
}

// A round. -------------------------------------------------------------------------------------

bool Coordinator::is_idle(const Node& node) const {
  return node.has_told && !is_under_way(node.news.state);
}

bool Coordinator::is_ready(const Node& node) const {
  return node.link.has_value() && is_idle(node) && !node.is_leaving && !node.line_due;
}

std::string Coordinator::why_unfit(const Node& node) const {
  const bool must_run = policy_.must_run_itself && node.info.incarnation == self();
  if (must_run) return {};
  if (!node.news.unfit.empty()) return node.news.unfit;
  return failures_.why_unfit(node.info, seen_);
}

/// Asked of all nodes at each event.
bool Coordinator::is_fit(const Node& node) const {
  return (node.news.unfit.empty() && failures_.empty()) || why_unfit(node).empty();
}

/// The node on which that worker ran; null: it is not connected any more.
const Coordinator::Node* Coordinator::began_at(const FailureNews& culprit) const {
  const auto found = std::ranges::find_if(nodes_, [&culprit](const auto& entry) {
    const auto& failure = entry.second.news.failure;
    return failure && failure->is_of_same_worker(culprit);
  });
  return found == nodes_.end() ? nullptr : &found->second;
}

/// A failure is charged to the node on which it began.
void Coordinator::blame(const FailureNews& culprit, TimePoint now) {
  const bool may_be_its_own = culprit.suspicion() != Suspicion::kLostPeer && culprit.can_be_retried;
  if (!policy_.blames_nodes || !may_be_its_own) return;
  if (const Node* const node = began_at(culprit)) failures_.began_at(node->info, now);
}

/// Of each node that is here and unfit, whether it is to run all the same, once.
void Coordinator::note_unfit(Effects& out) {
  for (auto& [incarnation, node] : nodes_) {
    const std::string why = is_ready(node) ? why_unfit(node) : "";
    if (why.empty()) continue;
    std::string text = fmt::format(
        "node {} is not fit: {}; {}",
        node.info.host,
        why,
        is_to_run(incarnation) ? "it runs workers all the same, since the others do not suffice"
                               : "it stands by");
    if (text == node.told_unfit) continue;
    node.told_unfit = text;
    out.emplace_back(effects::Note{.text = std::move(text), .is_for_all = true});
  }
}

bool Coordinator::is_to_run(Incarnation node) const {
  return round_.runs.contains(node);
}

bool Coordinator::is_full_without(Incarnation node) const {
  const bool has_round = phase_ == Phase::kRunning || phase_ == Phase::kStopping;
  return has_round && !is_to_run(node) && std::ssize(round_.to_run) >= policy_.nodes.max();
}

void Coordinator::gather(TimePoint now, Effects& out) {
  const auto self_at = nodes_.find(self());
  const bool can_lead = self_at != nodes_.end() && is_ready(self_at->second);
  const bool regroups = unheard_ > 0 && now < regroup_until_;
  std::erase_if(held_for_, [now](const auto& entry) { return now >= entry.second; });
  if (!held_for_.empty()) return;  // not after the last call either
  if (verdict_ || !can_lead || regroups || now < not_before_) return;
  int ready = 0;
  int fit = 0;
  bool one_may_come = false;
  bool is_on_its_way = false;
  for (const auto& [incarnation, node] : nodes_) {
    if (node.may_run) return;  // R2: a round of an earlier leader
    if (is_ready(node)) {
      ++ready;
      if (is_fit(node)) ++fit;
    }
    if (node.is_leaving) continue;
    // Its connection ended a moment ago: it calls again, or its death is known soon.
    if (!node.link) one_may_come = true;
    // Its lifeline is on its way. As a spare, too, it is to have a vote.
    if (node.link && node.line_due) is_on_its_way = true;
  }
  if (ready < policy_.nodes.min()) {
    last_call_until_.reset();
    return wait_for_min(ready, now, out);
  }
  if (is_on_its_way) return;
  // Spares that are there from the start have a vote, and the first nodes run.
  const bool is_expecting = !has_history_ && ready < policy_.expected;
  if (is_expecting && now < gather_since_ + policy_.expected_wait) return;
  if ((policy_.spares ? fit : ready) < policy_.nodes.max()) {
    if (one_may_come) return;
    if (!has_history_ && !last_call_until_) last_call_until_ = now + policy_.last_call;
    if (!has_history_ && now < *last_call_until_) return report_last_call(ready, now, out);
  }
  // A round that cannot start would keep those away who could help to start one.
  const auto is_ready_node = [this](Incarnation incarnation) {
    const auto found = nodes_.find(incarnation);
    return found != nodes_.end() && is_ready(found->second);
  };
  if (lease_.majority_is(is_ready_node)) offer(now, out);
}

/// Until as many nodes are here as a round needs at least, or that is not to be expected any more.
void Coordinator::wait_for_min(int ready, TimePoint now, Effects& out) {
  std::string why;
  if (too_few_may_come(now)) {
    why = too_few_left_text(gathering(ready));
  } else if (now < gather_since_ + gather_timeout()) {
    return report_waiting(ready, now, out);
  } else {
    why = timed_out_text(gathering(ready), gather_timeout());
  }
  decide({.exit_status = kExitTryAgain, .why = std::move(why)}, {}, out);
}

Duration Coordinator::gather_timeout() const {
  const Duration again = policy_.regather_timeout.value_or(policy_.join_timeout);
  return has_history_ ? again : policy_.join_timeout;
}

/// In a step of Slurm's nobody takes the place of a node that has died: whether those that are
/// here, are silent, or have not come yet would not be enough. One that was suspended comes back by
/// itself, well within a lease.
bool Coordinator::too_few_may_come(TimePoint now) const {
  if (!policy_.regather_timeout || !has_history_) return false;
  if (now < gather_since_ + policy_.lease + policy_.margin) return false;
  int silent = lost_.unmet();
  for (const KnownVoterSet& voters : lease_.voter_sets())
    silent = std::max(silent, unmet_in(voters));
  silent += static_cast<int>(lost_.searching());
  const auto stays = [](const auto& entry) { return !entry.second.is_leaving; };
  const auto here = static_cast<int>(std::ranges::count_if(nodes_, stays));
  const int late = std::max(0, policy_.expected - met_);
  return here + silent + late < policy_.nodes.min();
}

/// Of the last round; empty: none, or not known.
std::string Coordinator::missing_hosts() const {
  std::vector<std::string> here;
  here.reserve(nodes_.size());
  for (const auto& [incarnation, node] : nodes_)
    here.push_back(node.info.host);
  return spelled_hosts(hosts_without(round_hosts_, here));
}

void Coordinator::report_waiting(int ready, TimePoint now, Effects& out) {
  if (now < gather_since_ + kQuietWait || std::exchange(has_reported_waiting_, true)) return;
  const TimePoint until = gather_since_ + gather_timeout();
  out.emplace_back(effects::Note{
      .text = waiting_text(gathering(ready), now - gather_since_, until - now),
      .is_for_all = true});
}

TimePoint Coordinator::reports_last_call_at() const {
  return last_call_until_.value_or(kNever) - policy_.last_call + kQuietLastCall;
}

void Coordinator::report_last_call(int ready, TimePoint now, Effects& out) {
  if (now < reports_last_call_at() || std::exchange(has_reported_last_call_, true)) return;
  const Duration left = last_call_until_.value_or(now) - now;
  out.emplace_back(
      effects::Note{.text = last_call_text(gathering(ready), left), .is_for_all = true});
}

Gathering Coordinator::gathering(int ready) const {
  std::vector<const NodeInfo*> here;
  here.reserve(nodes_.size());
  for (const auto& [incarnation, node] : nodes_) {
    here.push_back(&node.info);
  }
  return {
      .policy = policy_,
      .here = std::move(here),
      .ready = ready,
      .missing = has_history_ ? missing_hosts() : "",
      .endpoint = (policy_.meet.empty() ? self_.listens : policy_.meet.front()).to_string()};
}

/// The nodes of the round by group rank, then its spares, then the others.
std::vector<Successor> Coordinator::successors() const {
  std::vector<Successor> out;
  const auto add = [&](Incarnation incarnation) {
    const auto found = nodes_.find(incarnation);
    const bool has_room = out.size() < kSuccessorsMax;
    if (!has_room || incarnation == self() || found == nodes_.end()) return;
    out.push_back({.node = incarnation, .at = found->second.info.listens});
  };
  std::ranges::for_each(round_.to_run, add);
  for (const bool has_vote : {true, false}) {
    for (const auto& [incarnation, node] : nodes_) {
      if (out.size() >= kSuccessorsMax) break;
      const bool votes = round_.voters.members.contains(incarnation);
      if (votes == has_vote && !is_to_run(incarnation)) add(incarnation);
    }
  }
  return out;
}

/// Of all who are ready, whether there is a place for them or not.
std::vector<Participant> Coordinator::participants() const {
  std::vector<Participant> participants;
  for (const auto& [incarnation, node] : nodes_) {
    if (!is_ready(node)) continue;
    participants.push_back(
        {.node = incarnation,
         .host = node.info.host,
         .node_rank = node.info.node_rank,
         .previous = node.group_rank,
         .joined = node.joined,
         .workers = node.info.workers,
         .is_unfit = !is_fit(node)});
  }
  return participants;
}

void Coordinator::offer(TimePoint now, Effects& out) {
  std::vector<Participant> participants = this->participants();
  Round round;
  round.id = {.term = term_, .number = ++last_round_};
  round.voters.round = round.id;
  for (const Participant& participant : participants) {
    round.voters.members.insert(participant.node);
  }
  round.voters.size = static_cast<int>(participants.size());
  const NodeRange& range = policy_.nodes;
  const auto seated = plan_ranks(
      choose_participants(std::move(participants), self(), range.min(), range.max()), self());

  OfferRound offer;
  offer.round = round.id;
  offer.nodes = static_cast<int>(seated.size());
  offer.voter_count = round.voters.size;
  offer.master = policy_.master;
  for (const auto& [incarnation, place] : seated) {
    const Node& node = nodes_.at(incarnation);
    round.to_run.push_back(incarnation);
    round.runs.insert(incarnation);
    round.world = place.world_size;
    if (offer.hosts.size() + node.info.host.size() < kHostsBytesMax) {
      offer.hosts += (offer.hosts.empty() ? "" : ",") + node.info.host;
    }
  }
  progress_.world = round.world;
  offer.progress = progress_;
  std::map<Incarnation, Place> places;
  for (const auto& [incarnation, place] : seated) {
    places.emplace(incarnation, place);
  }
  phase_ = Phase::kOffered;
  round_ = std::move(round);
  round_hosts_.clear();
  for (const Incarnation incarnation : round_.to_run)
    round_hosts_.push_back(nodes_.at(incarnation).info.host);
  offer.successors = successors();
  offer.leader_runs = is_to_run(self());
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
    Node& node = nodes_.at(member);
    node.group_rank = offer.place ? offer.place->group_rank : node.group_rank;
    send(node, offer, out);
  }
  lease_.offer(round_.voters, now);
  note_unfit(out);
}

void Coordinator::on(
    Node& node, const Acknowledge& acknowledge, TimePoint /*now*/, Effects& /*out*/) {
  const bool is_present = phase_ == Phase::kOffered && acknowledge.round == round_.id;
  if (is_present) round_.acknowledged.insert(node.info.incarnation);
}

bool Coordinator::may_start(TimePoint now) const {
  // Not before there are enough: this is asked at every acknowledgement.
  if (round_.acknowledged.size() < round_.to_run.size()) return false;
  const auto has_acknowledged = [this](Incarnation node) {
    return round_.acknowledged.contains(node);
  };
  if (!std::ranges::all_of(round_.to_run, has_acknowledged)) return false;
  return lease_.majority_is_with_offer(has_acknowledged) && lease_.grants_until() > now;
}

/// A newcomer may be one of those that earlier leaders lost, or was started in the place of one
/// that fell silent.
void Coordinator::look_for_silent(Node& newcomer, const Hello& hello) {
  const auto told = voter_sets_of(hello.voter_state);
  newcomer.may_replace = std::ranges::none_of(told, &VoterSet::is_member);
  for (const VoterSet* const each : told) {
    if (each->is_member && lost_.met_voter(each->round)) break;
  }
  if (newcomer.may_replace) lost_.replaced_on(hello.node.host);
  count_replacements();
}

/// Whether its host has joined anew since it was heard: a machine that was reset is back before the
/// silence of its former life is long enough.
bool Coordinator::is_started_again(const Node& silent) const {
  return std::ranges::any_of(nodes_, [&silent](const auto& entry) {
    const Node& node = entry.second;
    return node.info.host == silent.info.host && node.joined_at > silent.heard_at;
  });
}

/// A node that is started anew under a leader that did not meet the silent ones, and so does not
/// know their names, is taken for the successor of one of them: the end of the job is not kept
/// waiting for who is back.
void Coordinator::count_replacements() {
  for (auto& [incarnation, node] : nodes_) {
    if (lost_.unmet() == 0) return;
    if (std::exchange(node.may_replace, false)) lost_.met_replacement();
  }
}

void Coordinator::start(TimePoint now, Effects& out) {
  Round& round = round_;
  phase_ = Phase::kRunning;
  has_history_ = true;
  round.started_at = now;
  newcomer_at_.reset();
  lost_.round_starts(lease_.voter_sets().front(), now + policy_.search_timeout);
  count_replacements();
  lease_.start(now);
  effects::BeginStore store{.round = round.id, .nodes = {}, .successors = {}};
  for (const Successor& successor : successors()) {
    store.successors.push_back(successor.node);
  }
  for (const Incarnation incarnation : round.to_run) {
    Node& node = nodes_.at(incarnation);
    node.may_run = true;
    store.nodes.push_back({.link = node.link.value_or(Link{}), .host = node.info.listens.host});
  }
  out.emplace_back(std::move(store));
  for (const Incarnation member : round.voters.members) {
    const auto found = nodes_.find(member);
    if (found == nodes_.end() || !found->second.link) continue;
    const Node& node = found->second;
    if (is_to_run(member)) round.started_on.emplace(member, node.link.value_or(Link{}));
    answer(node, out);  // its lease, under the voter set that holds from now on
    send(node, StartRound{.round = round.id}, out);
  }
  // Whoever was not ready for it has to know as well whom to try if this node is lost.
  for (const auto& [incarnation, node] : nodes_) {
    if (!round.voters.members.contains(incarnation)) welcome(node, out);
  }
  out.emplace_back(effects::Note{
      .text = fmt::format(
          "round {} of term {} starts on {} nodes with {} workers",
          round.id.number,
          round.id.term,
          round.to_run.size(),
          round.world)});
}

void Coordinator::on(Node& node, const WorkerNews& news, TimePoint now, Effects& out) {
  const bool is_first = !std::exchange(node.has_told, true);
  node.news = news;
  const Incarnation incarnation = node.info.incarnation;
  const bool has_started = phase_ == Phase::kRunning || phase_ == Phase::kStopping;
  if (!has_started || !is_to_run(incarnation)) {
    node.may_run = !is_idle(node);
    return;
  }
  const bool is_of_round = news.round == round_.id;
  if (!is_of_round) {
    // Told right after its Welcome: the start was lost with the connection it was sent on.
    const auto started_on = round_.started_on.find(incarnation);
    const bool lost_start = is_first && started_on != round_.started_on.end() &&
                            started_on->second != node.link && is_idle(node);
    if (!lost_start) return;
  }
  node.may_run = !is_idle(node);
  if (is_idle(node)) round_.ended.insert(incarnation);
  if (is_of_round && news.state == WorkersState::kSucceeded) round_.succeeded.insert(incarnation);
  if (is_of_round && news.has_saved) round_.saved.insert(incarnation);
  if (is_of_round && news.failure && ending_) shorten_grace(*ending_, spelled(*news.failure), out);
  if (is_of_round && news.failure && phase_ == Phase::kStopping) crashes_.learned(*news.failure);
  if (phase_ == Phase::kStopping && !is_idle(node)) {
    // The order was lost with the connection it was sent on.
    StopRound order = round_.order;
    order.restarts = order.restarts && !verdict_;
    if (is_first) send(node, order, out);
    return;
  }
  if (phase_ != Phase::kRunning) return;
  if (is_of_round && news.failure) {
    first_failure_.note(
        {.culprit = *news.failure,
         .ran_for = now - round_.started_at,
         .reached_store = round_.reached_store},
        now);
    return consider_failure(now, out);
  }
  if (first_failure_.is_pending())
    return;  // what follows from it is told of as well, and has its reason there
  if (is_idle(node) && !round_.succeeded.contains(incarnation)) {
    go_on_without_blame(fmt::format("node {} has stopped its workers", node.info.host), out);
  }
}

void Coordinator::on(Node& node, const FailureText& failure, TimePoint /*now*/, Effects& out) {
  if (failure.round == round_.id) text_of_.reset();
  if (!policy_.has_own_console || failure.lines.empty()) return;
  out.emplace_back(effects::ShowFailure{.host = node.info.host, .failure = failure});
}

bool Coordinator::may_restart() const {
  return budget_.used() < budget_.max();
}

void Coordinator::consider_failure(TimePoint now, Effects& out) {
  const bool all_ended = round_.ended.size() == round_.to_run.size();
  const auto first = first_failure_.take_due(now, all_ended, may_restart(), crashes_);
  if (first) fail(*first, now, out);
}

void Coordinator::fail(const FirstFailure::Failure& first, TimePoint now, Effects& out) {
  const FailureNews& culprit = first.culprit;
  StopRound order;
  order.culprit = culprit;
  order.why = spelled(culprit);
  if (const auto silent = silent_host(now); silent && culprit.can_be_retried) {
    return go_on_without_blame(fmt::format("node {} is silent, and {}", *silent, order.why), out);
  }
  blame(culprit, now);
  crashes_.failed(culprit, first.ran_for, first.reached_store);
  order.crashes = crashes_.in_a_row();
  order.repeats = crashes_.repeats();
  const bool may_help = culprit.can_be_retried && !(order.repeats && policy_.needs_progress);
  order.restarts = may_help && budget_.try_take(now - round_.started_at);
  if (order.restarts) {
    const Duration least = culprit.needs_pause ? policy_.start_pause : Duration();
    order.pause = std::max(crashes_.pause(), least);
    if (order.pause > Duration()) not_before_ = now + order.pause;
    return break_round(std::move(order), out);
  }
  const Node* const node = began_at(culprit);
  const bool is_elsewhere = node != nullptr && node->info.incarnation != self();
  if (policy_.has_own_console && is_elsewhere) text_of_ = node->info.incarnation;
  const std::string why = order.why;
  decide({.exit_status = culprit.exit_status, .why = why}, std::move(order), out);
}

/// A node of the round that misses several heartbeats. If its lease is over its workers have been
/// killed, and those of other nodes fail for want of them before anybody knows that it is lost.
std::optional<std::string> Coordinator::silent_host(TimePoint now) const {
  for (const Incarnation incarnation : round_.to_run) {
    const auto found = nodes_.find(incarnation);
    if (found == nodes_.end() || incarnation == self()) continue;
    if (now - found->second.heard_at >= policy_.lease / 2) return found->second.info.host;
  }
  return std::nullopt;
}

void Coordinator::break_round(StopRound order, Effects& out) {
  phase_ = Phase::kStopping;
  first_failure_.clear();
  succeeded_at_.reset();
  order.round = round_.id;
  order.restarts = order.restarts && !verdict_;
  order.restarts_used = budget_.used();
  order.restarts_max = budget_.max();
  round_.order = order;
  round_.order.culprit.reset();
  progress_.reason = order.why;
  progress_.restarts_used = budget_.used();
  for (const Incarnation incarnation : round_.to_run) {
    const auto found = nodes_.find(incarnation);
    if (found == nodes_.end() || !found->second.link) continue;
    if (!round_.ended.contains(incarnation) || order.culprit) send(found->second, order, out);
  }
  // It says so for all, whether or not it has workers that are to be stopped.
  const bool is_to_stop = is_to_run(self()) && !round_.ended.contains(self());
  if (!order.restarts || order.culprit || is_to_stop) return;
  out.emplace_back(effects::Note{
      .text =
          fmt::format("{}; next: restarting the workers once enough nodes have joined", order.why),
      .is_for_all = true});
}

/// No worker's failure: another round follows, and the budget stays as it is.
void Coordinator::go_on_without_blame(std::string why, Effects& out) {
  StopRound order;
  order.why = std::move(why);
  order.restarts = true;
  break_round(std::move(order), out);
}

void Coordinator::consider_success(TimePoint now, Effects& out) {
  if (!succeeded_at_) succeeded_at_ = now;
  if (now >= *succeeded_at_ + policy_.notice_delay)
    decide({.exit_status = kExitOk, .why = ""}, {}, out);
}

void Coordinator::round_ended(TimePoint now) {
  if (text_of_) text_until_ = now + kTextPatience;
  phase_ = Phase::kGathering;
  gather_since_ = now;
  has_reported_waiting_ = false;
  ++progress_.attempt;
  progress_.previous_world = round_.world;
}

void Coordinator::consider_newcomers(TimePoint now, Effects& out) {
  const auto is_newcomer = [this](const auto& entry) {
    return is_ready(entry.second) && !is_to_run(entry.first) && is_fit(entry.second);
  };
  const auto runs_unfit = [this](const auto& entry) {
    return !is_fit(entry.second) && is_to_run(entry.first);
  };
  const bool has_room =
      std::ssize(round_.to_run) < policy_.nodes.max() || std::ranges::any_of(nodes_, runs_unfit);
  if (!has_room) return;
  const auto newcomer = std::ranges::find_if(nodes_, is_newcomer);
  if (verdict_ || newcomer == nodes_.end() || !round_.succeeded.empty()) {
    newcomer_at_.reset();
    return;
  }
  if (!newcomer_at_) newcomer_at_ = now;
  if (first_failure_.is_pending()) return;  // a failure is no join
  if (now < *newcomer_at_ + policy_.newcomer_pause) return;
  go_on_without_blame(fmt::format("node {} joins", newcomer->second.info.host), out);
}

// Leaving, and the end. ------------------------------------------------------------------------

void Coordinator::on(Node& node, const Leaving& leaving, TimePoint /*now*/, Effects& out) {
  if (std::exchange(node.is_leaving, true)) {
    if (leaving.signal == SIGKILL) return end_at_once(node.info.host, out);
    // Said again on a new connection: the answer on the one before may be lost.
    if (!verdict_) node.has_heard_verdict = false;
    return;
  }
  node.leaving_by = leaving.signal;
  has_leavers_ = true;
  const auto stays = [](const auto& entry) {
    return entry.second.link.has_value() && !entry.second.is_leaving;
  };
  const auto remain = std::ranges::count_if(nodes_, stays);
  const std::string host = node.info.host;
  const Incarnation incarnation = node.info.incarnation;
  // Before the first round nothing is lost with it: the others wait on, for whoever takes its
  // place.
  const bool is_missed = has_history_ && remain < policy_.nodes.min();
  if (leaving.whole_job || is_missed) return end_by(leaving.signal, host, out);
  cancel_offer_to(incarnation);
  const bool runs =
      phase_ == Phase::kRunning && is_to_run(incarnation) && !round_.ended.contains(incarnation);
  if (!runs) return;
  go_on_without_blame(
      fmt::format("node {} leaves, told by {}", host, signal_name(leaving.signal)), out);
}

/// After a notice what the job ends with is known when its workers have ended.
void Coordinator::end_by(int signal, const std::string& host, Effects& out) {
  if (verdict_ || ending_) return;
  Verdict verdict{
      .exit_status = exit_status_of_signal(signal),
      .why = fmt::format("{} was told to stop by {}", host, signal_name(signal))};
  if (phase_ != Phase::kRunning || !contract::is_notice(signal)) {
    return decide(std::move(verdict), {}, out);
  }
  StopRound order;
  order.why = verdict.why;
  order.notice = signal;
  Verdict& ending = ending_.emplace(std::move(verdict));
  const auto ended_first = first_failure_.take();
  break_round(std::move(order), out);
  if (ended_first && !ended_first->culprit.has_saved()) {
    shorten_grace(ending, spelled(ended_first->culprit), out);
  }
}

/// A person has said it twice.
void Coordinator::end_at_once(const std::string& host, Effects& out) {
  const bool is_ending = (ending_ || verdict_) && phase_ == Phase::kStopping;
  if (!is_ending || round_.order.notice == SIGKILL) return;
  StopRound order = round_.order;
  order.why = fmt::format("{} was told to stop twice", host);
  order.notice = SIGKILL;
  break_round(std::move(order), out);
}

/// Not all have saved. Those who wait for one that has not have no more than the grace.
void Coordinator::shorten_grace(Verdict& ending, const std::string& why, Effects& out) {
  if (round_.order.notice == 0) return;  // they have been told
  ending.why += "; " + why;
  StopRound order;
  order.why = ending.why;
  break_round(std::move(order), out);
}

Verdict Coordinator::verdict_after_notice(const Verdict& ending) const {
  const auto has_succeeded = [this](Incarnation node) { return round_.succeeded.contains(node); };
  const auto has_saved = [&](Incarnation node) {
    return has_succeeded(node) || round_.saved.contains(node);
  };
  // Where workers are signalled as well, those who exited with 0 before they were told have saved.
  const bool is_success =
      !workers_get_notices() && std::ranges::all_of(round_.to_run, has_succeeded);
  if (is_success) return {.exit_status = kExitOk, .why = ""};
  if (!std::ranges::all_of(round_.to_run, has_saved)) return ending;
  return {
      .exit_status = policy_.notice_status,
      .why = fmt::format("{}, and all workers have saved and ended", ending.why)};
}

void Coordinator::dismiss_leavers(Effects& out) {
  const bool round_is_over = phase_ == Phase::kGathering || phase_ == Phase::kOffered;
  for (auto& [incarnation, node] : nodes_) {
    if (!node.is_leaving || !node.link || !is_idle(node) || node.has_heard_verdict) continue;
    // The leader goes last, so that the others stop in order before they look for another.
    if (incarnation == self() && !round_is_over) continue;
    node.has_heard_verdict = true;  // told once
    send(
        node,
        VerdictNews{
            .verdict = {.exit_status = exit_status_of_signal(node.leaving_by), .why = ""},
            .is_final = true},
        out);
  }
}

void Coordinator::decide(Verdict verdict, StopRound order, Effects& out) {
  if (verdict_) return;
  const Verdict decided = verdict;
  verdict_ = std::move(verdict);
  for (const auto& [incarnation, node] : nodes_) {
    if (node.link) send(node, VerdictNews{.verdict = decided, .is_final = false}, out);
  }
  if (phase_ == Phase::kOffered) take_back_offer();
  if (phase_ != Phase::kRunning) return;
  order.why = decided.why;
  break_round(std::move(order), out);
}

void Coordinator::on(
    Node& node, const VerdictHeard& /*heard*/, TimePoint /*now*/, Effects& /*out*/) {
  if (verdict_) node.has_heard_verdict = true;
}

/// Not from a node that is gone.
bool Coordinator::awaits_text(TimePoint now) const {
  if (!text_of_ || now >= text_until_) return false;
  const auto found = nodes_.find(*text_of_);
  return found != nodes_.end() && found->second.link.has_value();
}

/// A node that fell silent and finds nobody ends with 75, as if the job had failed. If it was done,
/// this node waits to be found for as long as that one looks.
bool Coordinator::may_be_asked(TimePoint now) const {
  const auto own = nodes_.find(self());
  const bool is_told_to_stop = own != nodes_.end() && own->second.is_leaving;
  const bool is_done = verdict_ && verdict_->exit_status == kExitOk;
  return is_done && !is_told_to_stop && now < lost_.searching_until();
}

void Coordinator::report_searching(TimePoint now, Effects& out) {
  if (std::exchange(has_reported_searching_, true)) return;
  const std::size_t searching = lost_.searching() + static_cast<std::size_t>(lost_.unmet());
  out.emplace_back(effects::Note{
      .text = fmt::format(
          "all workers have exited with 0; waiting for {} lost by silence, to tell {} so if the "
          "network heals (timeout {:.0f} s; SIGTERM ends the wait)",
          searching == 1 ? "a node" : fmt::format("{} nodes", searching),
          searching == 1 ? "it" : "them",
          to_seconds(lost_.searching_until() - now)),
      .is_for_all = true});
}

void Coordinator::spread_verdict(TimePoint now, Effects& out) {
  if (!verdict_) return;
  const VerdictNews final{.verdict = *verdict_, .is_final = true};
  const auto has_heard = [this](Incarnation incarnation) {
    const auto found = nodes_.find(incarnation);
    return found != nodes_.end() && found->second.has_heard_verdict;
  };
  if (!is_final_ && !awaits_text(now) && lease_.majority_is(has_heard)) {
    is_final_ = true;
    final_at_ = now;
    for (const auto& [incarnation, node] : nodes_) {
      if (node.link && incarnation != self()) send(node, final, out);
    }
  }
  if (!is_final_ || final_at_ == kNever) return;
  // The store lives until the last worker of the job has ended, and the leader until all know.
  const auto is_with_us = [this](const auto& entry) {
    return entry.first != self() && entry.second.link.has_value();
  };
  const bool is_stopping = phase_ == Phase::kStopping;
  if (is_stopping) final_at_ = std::max(final_at_, now);
  const bool others_gone = lease_.has_met_all() && std::ranges::none_of(nodes_, is_with_us);
  if (is_stopping || (!others_gone && now < final_at_ + policy_.verdict_timeout)) return;
  if (may_be_asked(now)) return report_searching(now, out);
  const auto own = nodes_.find(self());
  if (own == nodes_.end()) return;
  final_at_ = kNever;  // told once
  send(own->second, final, out);
}

// Everything that follows from where things stand. ----------------------------------------------

/// Yields false while it may not act.
bool Coordinator::keep_lead(TimePoint now, Effects& out) {
  seen_ = now;
  expire(now, out);
  // What a majority knows nobody can decide otherwise: to tell it takes no lease. Those who have
  // been told leave, and would take the lease with them.
  return is_final_ || lease_.renew(now);
}

void Coordinator::advance(TimePoint now, Effects& out) {
  // One that slept listens only since now: what has come meanwhile may be read after this event.
  if (now - kOverslept > due_) {
    not_before_ = std::max(not_before_, now + announced_within(policy_.lease));
  }
  act(now, out);
  const bool may_begin = !has_history_ && may_be_elsewhere(policy_);
  due_ = may_begin ? next_deadline().value_or(kNever) : kNever;
}

void Coordinator::act(TimePoint now, Effects& out) {
  if (!keep_lead(now, out)) return;
  await_lines(now, out);
  const bool is_stopping = phase_ == Phase::kStopping;
  if (is_stopping && round_.ended.size() == round_.to_run.size()) round_ended(now);
  if (ending_ && !verdict_ && phase_ == Phase::kGathering) {
    decide(verdict_after_notice(*ending_), {}, out);
  }
  if (has_leavers_ && !verdict_ && !ending_) dismiss_leavers(out);
  if (phase_ == Phase::kGathering) gather(now, out);
  if (phase_ == Phase::kOffered && may_start(now)) start(now, out);
  consider_failure(now, out);
  if (phase_ == Phase::kRunning) {
    if (round_.succeeded.size() == round_.to_run.size()) {
      consider_success(now, out);
    } else {
      consider_newcomers(now, out);
    }
  }
  if (verdict_) spread_verdict(now, out);
}

void Coordinator::tick(TimePoint now, Effects& out) {
  if (is_fenced()) return;
  advance(now, out);
}

std::optional<TimePoint> Coordinator::next_deadline() const {
  if (is_fenced()) return std::nullopt;
  TimePoint next = kNever;
  // What was due by the last event has been done, or waits for something else.
  const auto not_after = [&](TimePoint at) {
    if (at > seen_) next = std::min(next, at);
  };
  not_after(expire_at_);
  not_after(line_due_);
  not_after(lease_.deadline());
  if (phase_ == Phase::kGathering && !verdict_) {
    not_after(gather_since_ + gather_timeout());
    if (policy_.regather_timeout) not_after(gather_since_ + policy_.lease + policy_.margin);
    if (!has_reported_waiting_) not_after(gather_since_ + kQuietWait);
    if (last_call_until_) not_after(*last_call_until_);
    if (last_call_until_ && !has_reported_last_call_) not_after(reports_last_call_at());
    not_after(not_before_);
    for (const auto& [place, until] : held_for_)
      not_after(until);
    if (unheard_ > 0) not_after(regroup_until_);
    if (!has_history_) not_after(gather_since_ + policy_.expected_wait);
  }
  not_after(first_failure_.deadline(may_restart(), crashes_));
  if (succeeded_at_) not_after(*succeeded_at_ + policy_.notice_delay);
  if (phase_ == Phase::kRunning && newcomer_at_ && !first_failure_.is_pending())
    not_after(*newcomer_at_ + policy_.newcomer_pause);
  if (text_of_) not_after(text_until_);
  if (verdict_ && is_final_ && final_at_ != kNever) {
    not_after(final_at_ + policy_.verdict_timeout);
    not_after(lost_.searching_until());
  }
  if (next == kNever) return std::nullopt;
  return next;
}

Coordinator::Node* Coordinator::find(Link link) {
  const auto found = links_.find(link);
  return found == links_.end() ? nullptr : found->second;
}

void Coordinator::send(const Node& node, Message message, Effects& out) const {
  if (!node.link) return;
  out.emplace_back(effects::Send{.to = *node.link, .message = std::move(message)});
}

}  // namespace ddprun
