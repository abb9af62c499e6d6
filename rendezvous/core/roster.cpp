#include "rendezvous/core/roster.hpp"

#include "base/suspicion.hpp"
#include "rendezvous/core/earliest_deadline.hpp"
#include "rendezvous/core/gathering_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <ranges>
#include <utility>

namespace ddprun {

Roster::State Roster::Node::state() const {
  if (leaving_by) return State::kLeaving;
  if (!link) return State::kDisconnected;
  if (lifeline_due) return State::kAwaitsLifeline;
  if (!has_reported()) return State::kAwaitsReport;
  return is_under_way(news.state) ? State::kBusy : State::kReady;
}

Roster::Joined Roster::join(Link link, const Hello& hello, TimePoint now) {
  const Incarnation incarnation = hello.node.incarnation;
  const auto [found, is_new] = nodes_.try_emplace(incarnation);
  Node& node = found->second;
  lost_.joined(incarnation);
  // It may call again before the end of its old connection is noticed.
  const auto replaced = std::exchange(node.link, link);
  if (replaced) links_.erase(*replaced);
  links_.emplace(link, &node);
  if (is_new) {
    node.joined = ++joins_;
    node.joined_at = now;
    node.group_rank = hello.voter_state.group_rank;
    lost_.newcomer(hello);
  }
  node.info = hello.node;
  node.heard_at = now;
  if (!context_.is_self(incarnation)) {
    nodes_due_ = std::min(nodes_due_, now + context_.policy.lease + context_.policy.margin);
    if (!lifelines_.contains(incarnation)) {
      node.lifeline_due = now + context_.policy.line_patience;
      lifelines_due_ = std::min(lifelines_due_, *node.lifeline_due);
    }
  }
  return {.node = node, .is_new = is_new, .replaced = replaced};
}

void Roster::disconnect(Node& node) {
  if (node.link) links_.erase(*node.link);
  node.link.reset();
}

std::optional<Link> Roster::remove(Incarnation incarnation) {
  const auto found = nodes_.find(incarnation);
  const auto link = found->second.link;
  if (link) links_.erase(*link);
  nodes_.erase(found);
  lost_.removed(incarnation);
  return link;
}

void Roster::report_newcomer(const NodeInfo& node, Effects& out) const {
  const NodeRange wanted = context_.policy.nodes;
  const auto joined = std::min(std::ssize(nodes_), std::ptrdiff_t{wanted.max()});
  out.emplace_back(effects::Note{
      .text = fmt::format(
          "node {} ({}) joined: {}",
          node.host,
          node.listens.to_string(),
          nodes_text(joined, wanted.min(), wanted.max(), std::ssize(nodes_) - joined))});
  // A second job of the same program, or flags that may differ by node.
  const NodeInfo& leader = context_.self;
  if (node.workload.command == leader.workload.command) return;
  out.emplace_back(effects::Note{
      .text = fmt::format(
          "node {} runs {}, and the leader {}: {}",
          node.host,
          node.workload.command,
          leader.host,
          leader.workload.command)});
}

bool Roster::lifeline_opened(Incarnation incarnation) {
  lifelines_.insert(incarnation);
  Node* const node = find(incarnation);
  if (node != nullptr) node->lifeline_due.reset();
  return node != nullptr;
}

/// A node without a lifeline takes part as well: its death, and ours, are then noticed only when
/// the lease is over.
void Roster::give_up_lifelines(TimePoint now, Effects& out) {
  if (now < lifelines_due_) return;
  lifelines_due_ = kNever;
  for (auto& [incarnation, node] : nodes_) {
    if (!node.lifeline_due) continue;
    if (now < *node.lifeline_due) {
      lifelines_due_ = std::min(lifelines_due_, *node.lifeline_due);
      continue;
    }
    node.lifeline_due.reset();
    out.emplace_back(effects::Note{
        .text = fmt::format(
            "node {} opened no lifeline: its death will be detected only after {:.1f} s",
            node.info.host,
            to_seconds(context_.policy.lease + context_.policy.margin))});
  }
}

std::vector<Incarnation> Roster::overdue(TimePoint now) {
  std::vector<Incarnation> overdue;
  if (now < nodes_due_) return overdue;
  nodes_due_ = kNever;
  for (const auto& [incarnation, node] : nodes_) {
    if (context_.is_self(incarnation)) continue;
    const TimePoint at = node.heard_at + context_.policy.lease + context_.policy.margin;
    if (now >= at) {
      overdue.push_back(incarnation);
    } else {
      nodes_due_ = std::min(nodes_due_, at);
    }
  }
  return overdue;
}

void Roster::fell_silent(const Node& node, bool is_expected, TimePoint now, Effects& out) {
  lost_.fell_silent(node.info, node.heard_at);
  if (node.is_leaving() || is_started_again(node)) return;
  // Only the agent can have held the connection of a node that was in no round.
  const bool has_died = node.group_rank < 0 && !node.link;
  if (!has_died) lost_.searches(node.info, now + context_.policy.search_timeout);
  if (!is_expected) {
    out.emplace_back(effects::Absence{.host = node.info.host, .is_over = false});
  }
}

/// Whether its host has joined again since it was heard: a machine that was reset is back before
/// its former life was silent for long enough.
bool Roster::is_started_again(const Node& silent) const {
  return std::ranges::any_of(nodes_, [&silent](const auto& entry) {
    const Node& node = entry.second;
    return node.info.host == silent.info.host && node.joined_at > silent.heard_at;
  });
}

Roster::Node* Roster::find(Link link) {
  const auto found = links_.find(link);
  return found == links_.end() ? nullptr : found->second;
}

Roster::Node* Roster::find(Incarnation node) {
  const auto found = nodes_.find(node);
  return found == nodes_.end() ? nullptr : &found->second;
}

const Roster::Node* Roster::find(Incarnation node) const {
  const auto found = nodes_.find(node);
  return found == nodes_.end() ? nullptr : &found->second;
}

/// As long as the node that was found last may, no event has to look at all. Nodes that report in
/// their order leave the last one until the end.
bool Roster::any_may_run() const {
  const Node* const known = find(may_run_);
  if (known != nullptr && known->may_run) return true;
  const auto nodes = std::views::reverse(nodes_);
  const auto found =
      std::ranges::find_if(nodes, [](const auto& entry) { return entry.second.may_run; });
  if (found == nodes.end()) return false;
  may_run_ = found->first;
  return true;
}

void Roster::record_failure(const FailureNews& culprit, TimePoint now) {
  const bool may_be_its_own = culprit.suspicion() != Suspicion::kLostPeer && culprit.can_be_retried;
  if (!context_.policy.counts_failures || !may_be_its_own) return;
  if (const Node* const node = where_began(culprit)) failures_.began_at(node->info, now);
}

const Roster::Node* Roster::where_began(const FailureNews& culprit) const {
  const auto found = std::ranges::find_if(nodes_, [&culprit](const auto& entry) {
    const auto& failure = entry.second.news.failure;
    return failure && failure->is_of_same_worker(culprit);
  });
  return found == nodes_.end() ? nullptr : &found->second;
}

std::string Roster::why_unfit(const Node& node, TimePoint now) const {
  const bool must_run = context_.policy.must_run_itself && context_.is_self(node.info.incarnation);
  if (must_run) return {};
  if (!node.news.unfit.empty()) return node.news.unfit;
  return failures_.why_unfit(node.info, now);
}

/// Without a text in most cases: each event asks this of all nodes.
bool Roster::is_fit(const Node& node, TimePoint now) const {
  return (node.news.unfit.empty() && failures_.empty()) || why_unfit(node, now).empty();
}

TimePoint Roster::next_deadline(TimePoint after) const {
  EarliestDeadline next(after);
  next.add(nodes_due_);
  next.add(lifelines_due_);
  return next.at();
}

}  // namespace ddprun
