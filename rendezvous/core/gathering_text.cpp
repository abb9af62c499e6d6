#include "rendezvous/core/gathering_text.hpp"

#include "base/exit_status.hpp"

#include <fmt/format.h>

#include <cstddef>
#include <set>

namespace ddprun {
namespace {

constexpr std::size_t kHostsShownMax = 64;
constexpr std::size_t kRanksShownMax = 40;

/// "; missing node ranks: 1 3"; empty if the ranks that nodes ask for say nothing of the others.
std::string missing_ranks(const GatheringFacts& facts) {
  std::set<int> ranks;
  int ranked = 0;
  for (const NodeInfo* const node : facts.here) {
    if (!node->node_rank) continue;
    ranks.insert(*node->node_rank);
    ++ranked;
  }
  const bool are_distinct = static_cast<int>(ranks.size()) == ranked;
  // A wish may be the same on every node.
  const bool is_lone_wish = !facts.policy.ranks_are_places && ranked == 1;
  if (ranks.empty() || !are_distinct || is_lone_wish) return {};
  std::string out = "; missing node ranks:";
  std::size_t shown = 0;
  for (int rank = 0; rank < facts.policy.nodes.max() && shown < kRanksShownMax; ++rank) {
    if (ranks.contains(rank)) continue;
    out += fmt::format(" {}", rank);
    ++shown;
  }
  return out;
}

}  // namespace

std::string named(const NodeInfo& node) {
  return node.listens.host.empty() ? node.host
                                   : fmt::format("{} ({})", node.host, node.listens.to_string());
}

std::string attendance(const GatheringFacts& facts) {
  std::string out;
  std::size_t shown = 0;
  for (const NodeInfo* const node : facts.here) {
    if (++shown > kHostsShownMax) break;
    std::string about = node->listens.host.empty() ? "" : node->listens.to_string();
    if (node->node_rank) {
      about += fmt::format("{}node rank {}", about.empty() ? "" : ", ", *node->node_rank);
    }
    out += fmt::format("{}{}", shown == 1 ? "" : ", ", node->host);
    if (!about.empty()) out += fmt::format(" ({})", about);
  }
  return out + missing_ranks(facts);
}

std::string waiting_text(const GatheringFacts& facts, Duration waited, Duration left) {
  const RendezvousPolicy& policy = facts.policy;
  if (facts.missing.empty()) {
    return fmt::format(
        "waiting for nodes at {}: {} of {} joined: {}; timeout {:.0f} s{}",
        facts.endpoint,
        facts.ready,
        policy.nodes.min(),
        attendance(facts),
        to_seconds(waited + left),
        facts.here.size() == 1 ? policy.if_alone : "");
  }
  const bool may_be_started = policy.node.workload.step.empty();
  return fmt::format(
      "waiting for {} of the last round for {:.0f} s now: {} of {} nodes joined: {}; timeout "
      "{:.0f} s, then exit status {}{}",
      facts.missing,
      to_seconds(waited),
      facts.ready,
      policy.nodes.min(),
      attendance(facts),
      to_seconds(left),
      kExitTryAgain,
      may_be_started ? "; to continue, start ddprun again there, or on another node" : "");
}

std::string nodes_text(std::ptrdiff_t joined, int min, int max, std::ptrdiff_t spares) {
  return fmt::format(
      "{} of {}{} nodes{}",
      joined,
      min == max ? "" : fmt::format("{} to ", min),
      max,
      spares > 0 ? fmt::format(", {} spare{}", spares, spares > 1 ? "s" : "") : "");
}

std::string last_call_text(const GatheringFacts& facts, Duration left) {
  return fmt::format(
      "{} joined: {}; the job starts in {:.0f} s, sooner if all join, later if one joins "
      "(--rdzv-conf last_call_timeout=); others can join at {}",
      nodes_text(facts.ready, facts.policy.nodes.min(), facts.policy.nodes.max()),
      attendance(facts),
      to_seconds(left),
      facts.endpoint);
}

std::string timed_out_text(const GatheringFacts& facts, Duration timeout) {
  return fmt::format(
      "only {} of {} nodes joined within {:.0f} s: {}; {}",
      facts.ready,
      facts.policy.nodes.min(),
      to_seconds(timeout),
      attendance(facts),
      facts.missing.empty()
          ? fmt::format("check that the missing nodes can reach {}", facts.endpoint)
          : facts.missing + " of the last round did not come back");
}

std::string too_few_left_text(const GatheringFacts& facts) {
  return fmt::format(
      "only {} of {} nodes are left, and this step gets no new ones: {}; --nnodes MIN:MAX lets "
      "fewer continue",
      facts.ready,
      facts.policy.nodes.min(),
      attendance(facts));
}

}  // namespace ddprun
