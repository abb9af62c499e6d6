#include "launcher/ctl/status/core/status_text.hpp"

#include "rendezvous/core/gathering_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <ranges>
#include <string_view>

namespace ddprun {
namespace {

using Node = JobStatus::Node;
using Worker = JobStatus::Worker;

std::string printable(std::string text) {
  std::ranges::replace_if(
      text, [](unsigned char letter) { return letter < 0x20 || letter == 0x7f; }, '?');
  return text;
}

// In the order of the enumerators.
constexpr std::array<std::string_view, 4> kWorkerNotes = {"", " succeeded", " failed", " stopped"};

template <std::size_t Size>
std::string_view name_in(const std::array<std::string_view, Size>& names, auto state) {
  return names.at(static_cast<std::size_t>(state));
}

std::string workers_of(const Node& node) {
  std::string text;
  for (const Worker& worker : node.workers) {
    const std::string busy = worker.busy_with ? " " + printable(*worker.busy_with) : "";
    text += fmt::format(
        "{}{}:{}{}{}",
        text.empty() ? "" : ", ",
        worker.rank,
        worker.pid,
        name_in(kWorkerNotes, worker.state),
        busy);
  }
  return text.empty() ? "-" : text;
}

bool counts_steps(const Worker& worker) {
  return worker.step.has_value();
}

/// How far the workers of a node are: the steps of the one that is behind and of the one that is
/// ahead, the pace of the slowest, and how long ago one of them made a step.
std::string steps_of(const Node& node) {
  std::string step = "-";
  std::string pace = "-";
  std::string age = "-";
  auto counting = node.workers | std::views::filter(counts_steps);
  if (counting.begin() != counting.end()) {
    const auto [behind, ahead] = std::ranges::minmax(counting, {}, &Worker::step);
    step = fmt::to_string(behind.step.value_or(0));
    if (ahead.step != behind.step) step += fmt::format("-{}", ahead.step.value_or(0));
    const Worker slowest = std::ranges::max(counting, {}, &Worker::step_time);
    if (slowest.step_time) pace = fmt::format("{:.3g}", 1 / to_seconds(*slowest.step_time));
    const Worker last = std::ranges::min(counting, {}, &Worker::step_age);
    if (last.step_age) age = fmt::format("{:.1f} s", to_seconds(*last.step_age));
  }
  return fmt::format("{:>13} {:>8} {:>10}  ", step, pace, age);
}

std::string row(
    std::string_view rank,
    std::string_view host,
    std::string_view state,
    std::string_view heartbeat,
    std::string_view last_columns) {
  return fmt::format(
      "{:>5}  {:<24} {:<10} {:>14}  {}\n", rank, host, state, heartbeat, last_columns);
}

std::string row_of(const Node& node, bool has_steps) {
  return row(
      node.group_rank ? fmt::to_string(*node.group_rank) : "-",
      printable(node.host),
      name_in(kNodeStates, node.state),
      node.heartbeat_age ? fmt::format("{:.1f} s", to_seconds(*node.heartbeat_age)) : "-",
      (has_steps ? steps_of(node) : "") + workers_of(node));
}

std::string leader_of(const JobStatus& status) {
  const auto leader = std::ranges::find_if(status.nodes, &Node::is_leader);
  if (leader == status.nodes.end()) return "unknown";
  return printable(fmt::format("{} ({})", leader->host, leader->address));
}

}  // namespace

std::string status_text(const JobStatus& status) {
  const auto spares = std::ranges::count(status.nodes, Node::State::kSpare, &Node::state);
  std::string text = fmt::format(
      "job {} {}{}: round {}, attempt {}, {} of {} restarts used\n"
      "leader {}, term {}, lease {} s, ddprun {}\n"
      "{}\n",
      printable(status.job),
      state_text(status.state),
      status.exit_status ? fmt::format(" with status {}", *status.exit_status) : "",
      status.round,
      status.attempt,
      status.restarts_used,
      status.restarts_max,
      leader_of(status),
      status.term,
      to_seconds(status.lease),
      printable(status.version),
      nodes_text(std::ssize(status.nodes) - spares, status.nodes_min, status.nodes_max, spares));
  if (!status.reason.empty()) {
    text += fmt::format("the round before ended: {}\n", printable(status.reason));
  }
  const bool has_steps = std::ranges::any_of(status.nodes, [](const Node& node) {
    return std::ranges::any_of(node.workers, counts_steps);
  });
  const std::string steps =
      has_steps ? fmt::format("{:>13} {:>8} {:>10}  ", "step", "steps/s", "last step") : "";
  text += "\n" + row("rank", "node", "state", "last heartbeat", steps + "workers (rank:pid)");
  for (const Node& node : status.nodes) {
    text += row_of(node, has_steps);
  }
  for (const Node& node : status.nodes) {
    if (node.unfit.empty()) continue;
    text += fmt::format("not fit: {}: {}\n", printable(node.host), printable(node.unfit));
  }
  return text;
}

}  // namespace ddprun
