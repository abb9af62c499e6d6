#include "launcher/flags/core/slurm_flags.hpp"

#include "base/format_error.hpp"
#include "base/node_range.hpp"

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

namespace ddprun {
namespace {

constexpr char kPortSource[] = "SLURM_JOB_ID";
constexpr char kNodesSource[] = "SLURM_STEP_NUM_NODES";

/// A value that the user gave takes precedence.
void fill(CommandLine& line, std::string_view flag, std::string text, std::string source) {
  line.given.try_emplace(flag, Given{.text = std::move(text), .source = std::move(source)});
}

/// The first node of the step is the endpoint, if the user gave none.
void fill_rendezvous(const Allocation& allocation, NodeRange nodes, CommandLine& line) {
  constexpr char kList[] = "SLURM_STEP_NODELIST";
  const auto node_id = static_cast<int>(allocation.node_id);
  // With spares, or a range, the number of nodes that join differs from the number that run.
  const auto here = static_cast<int>(allocation.nodes.size());
  const bool is_fixed = nodes.min() == here && nodes.max() == here;
  if (!is_fixed) fill(line, "rdzv-backend", "c10d", kList);
  if (node_id < nodes.max()) fill(line, "node-rank", std::to_string(node_id), "SLURM_NODEID");
  if (gives_endpoint(line)) return;
  line.has_others = true;
  fill(line, "master-addr", allocation.nodes.front(), kList);
  fill(line, "master-port", std::to_string(allocation.ports().front()), kPortSource);
}

/// An invalid range is reported later.
NodeRange nodes_of(const CommandLine& line, NodeRange otherwise) {
  const auto given = line.given.find("nnodes");
  if (given == line.given.end()) return otherwise;
  const auto range = NodeRange::parse(given->second.text);
  return range ? *range : otherwise;
}

/// Whether each task started with this command line is a job of its own: it has no other nodes, or
/// listens on a port that no other node knows.
bool is_for_itself(const CommandLine& line) {
  const auto ends_with = [&line](std::string_view flag, std::string_view end) {
    const auto given = line.given.find(flag);
    return given != line.given.end() && std::string_view(given->second.text).ends_with(end);
  };
  const auto port = line.given.find("master-port");
  return line.given.contains("standalone") || ends_with("rdzv-endpoint", ":0") ||
         (port != line.given.end() && port->second.text == "0");
}

/// Whether the command line is for one agent on each node although the step has several tasks
/// there: it gives a number of nodes that the step has, or an endpoint.
bool is_for_each_node(const Allocation& allocation, const CommandLine& line) {
  if (is_for_itself(line)) return false;
  if (!line.given.contains("nnodes") && !gives_endpoint(line)) return false;
  const auto here = static_cast<int>(allocation.nodes.size());
  return nodes_of(line, NodeRange(here, here)).max() <= here;
}

}  // namespace

bool gives_endpoint(const CommandLine& line) {
  const auto is_given = [&line](std::string_view flag) { return line.given.contains(flag); };
  return is_given("standalone") || is_given("rdzv-endpoint") || is_given("master-addr");
}

std::vector<std::uint16_t> other_ports(const Allocation& allocation, const CommandLine& line) {
  const auto port = line.given.find("master-port");
  if (port == line.given.end() || port->second.source != kPortSource) return {};
  const auto ports = allocation.ports();
  return {ports.begin() + 1, ports.end()};
}

bool are_all_of_step(const Allocation& allocation, const CommandLine& line) {
  const auto here = static_cast<int>(allocation.nodes.size());
  return nodes_of(line, NodeRange(here, here)).max() <= here;
}

std::vector<std::uint16_t> refusal_ports(std::uint16_t port) {
  constexpr std::uint16_t kFirst = 61'000;
  constexpr std::uint16_t kEach = 2'267;  // two such ranges fit below 65,536
  const auto first = static_cast<std::uint16_t>(kFirst + port % kEach);
  return {first, static_cast<std::uint16_t>(first + kEach)};
}

bool is_whole_step(const CommandLine& line) {
  const auto nodes = line.given.find("nnodes");
  return nodes != line.given.end() && nodes->second.source == kNodesSource;
}

bool is_surplus(const Allocation& allocation, const CommandLine& line) {
  return allocation.has_shared_nodes() && allocation.local_id != 0 &&
         is_for_each_node(allocation, line);
}

Result<void> fill_from_slurm(const Allocation& allocation, int usable_cpus, CommandLine& line) {
  const auto here = static_cast<int>(allocation.nodes.size());
  const bool is_ours = !gives_endpoint(line);
  if (is_ours && allocation.has_shared_nodes() && !is_for_each_node(allocation, line)) {
    return agents_share_nodes(allocation);
  }
  const NodeRange nodes = nodes_of(line, NodeRange(here, here));
  if (is_ours && nodes.min() > here) {
    const Given& given = line.given.at("nnodes");
    return invalid_argument(
        "{} '{}': this Slurm step has {} nodes; ask sbatch and srun for {}, or leave it out",
        given.source,
        given.text,
        here,
        nodes.min());
  }
  const auto rank = line.given.find("node-rank");
  const std::string own_rank = std::to_string(allocation.node_id);
  if (is_ours && here > 1 && rank != line.given.end() && rank->second.text != own_rank) {
    return invalid_argument(
        "{} '{}': this is node {} of the step (SLURM_NODEID); leave it out",
        rank->second.source,
        rank->second.text,
        own_rank);
  }
  const int cpus = std::min(usable_cpus, allocation.cpus.value_or(usable_cpus));
  const int gpus = allocation.gpus.value_or(0);
  if (!line.given.contains("num-processes")) {
    fill(
        line,
        "nproc-per-node",
        std::to_string(gpus > 0 ? gpus : cpus),
        gpus > 0 ? "SLURM_GPUS_ON_NODE" : "SLURM_CPUS_ON_NODE");
  }
  // Nodes beyond those of the step come from other steps or jobs, or from outside Slurm.
  if (is_ours || nodes.max() <= here) fill(line, "rdzv-id", allocation.run_name(), "SLURM_JOB_ID");
  if (line.given.contains("standalone")) return {};
  fill(line, "nnodes", std::to_string(here), kNodesSource);
  if (here > 1) fill_rendezvous(allocation, nodes, line);
  return {};
}

}  // namespace ddprun
