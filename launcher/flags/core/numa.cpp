#include "launcher/flags/core/numa.hpp"

#include "base/check.hpp"
#include "base/format_error.hpp"
#include "base/parse.hpp"

#include <algorithm>
#include <cstddef>
#include <map>

namespace ddprun {
namespace {

constexpr int kCpusMax = 16'384;

void add_cpus(const NumaNode& node, std::set<int>& out) {
  for (const NumaCpu& cpu : node.cpus) {
    out.insert(cpu.number);
  }
}

std::set<int> cpus_of_socket(const NumaTopology& topology, int socket) {
  std::set<int> out;
  for (const NumaNode& node : topology) {
    if (node.cpus.front().socket == socket) add_cpus(node, out);
  }
  return out;
}

/// The CPUs of a node, grouped by the member `key`.
std::map<int, std::set<int>> grouped(const NumaNode& node, int NumaCpu::*key) {
  std::map<int, std::set<int>> groups;
  for (const NumaCpu& cpu : node.cpus) {
    groups[cpu.*key].insert(cpu.number);
  }
  return groups;
}

/// Share `index` of `count`; the first shares get a core more if the cores do not divide evenly.
Result<std::set<int>> share_of_cores(const NumaNode& node, int index, int count) {
  const auto cores = grouped(node, &NumaCpu::core);
  const int has = static_cast<int>(cores.size());
  if (has < count) {
    return invalid_argument(
        "NUMA node {} has only {} usable physical cores for {} workers or GPUs; use 'node', or "
        "fewer workers",
        node.number,
        has,
        count);
  }
  const int first = index * (has / count) + std::min(index, has % count);
  const int size = has / count + (index < has % count ? 1 : 0);
  std::set<int> out;
  auto core = std::next(cores.begin(), first);
  for (int i = 0; i < size; ++i, ++core) {
    out.insert(core->second.begin(), core->second.end());
  }
  return out;
}

/// Core complexes in turn, those with the most CPUs first.
std::set<int> core_complex(const NumaNode& node, int index) {
  std::vector<std::set<int>> complexes;
  for (auto& [cache, cpus] : grouped(node, &NumaCpu::cache)) {
    complexes.push_back(cpus);
  }
  std::ranges::stable_sort(complexes, std::ranges::greater(), &std::set<int>::size);
  return complexes[static_cast<std::size_t>(index) % complexes.size()];
}

}  // namespace

std::optional<NumaBinding> parse_numa_binding(std::string_view text) {
  if (text == "node") return NumaBinding::kNode;
  if (text == "socket") return NumaBinding::kSocket;
  if (text == "exclusive") return NumaBinding::kExclusive;
  if (text == "core-complex") return NumaBinding::kCoreComplex;
  return std::nullopt;
}

Result<std::set<int>> parse_cpu_list(std::string_view text) {
  std::set<int> cpus;
  if (trim(text).empty()) return cpus;
  for (const std::string_view piece : split(trim(text), ',')) {
    const std::size_t dash = piece.find('-');
    const auto first = parse_int<int>(piece.substr(0, dash));
    const auto last =
        dash == std::string_view::npos ? first : parse_int<int>(piece.substr(dash + 1));
    if (!first || !last || *first < 0 || *last < *first || *last >= kCpusMax) {
      return format_error(Errc::kCorrupt, "'{}' is not a list of CPUs", trim(text));
    }
    for (int cpu = *first; cpu <= *last; ++cpu) {
      cpus.insert(cpu);
    }
  }
  return cpus;
}

std::vector<int> spread_over_nodes(const NumaTopology& topology, int workers) {
  DDPRUN_CHECK(!topology.empty());
  std::vector<int> homes;
  homes.reserve(static_cast<std::size_t>(workers));
  const auto nodes = static_cast<int>(topology.size());
  for (int rank = 0; rank < workers; ++rank) {
    homes.push_back(topology[static_cast<std::size_t>(rank * nodes / workers)].number);
  }
  return homes;
}

Result<std::vector<std::set<int>>> bind_to_numa(
    const NumaTopology& topology, NumaBinding binding, const std::vector<int>& homes, int workers) {
  DDPRUN_CHECK(std::ssize(homes) >= workers);
  std::vector<std::set<int>> out;
  for (auto home = homes.begin(); std::ssize(out) < workers; ++home) {
    const auto node = std::ranges::find(topology, *home, &NumaNode::number);
    if (node == topology.end()) {
      return invalid_argument(
          "the GPU of local rank {} is on NUMA node {}, where this process may use no CPU",
          out.size(),
          *home);
    }
    const auto index = static_cast<int>(std::count(homes.begin(), home, *home));
    Result<std::set<int>> cpus = std::set<int>();
    switch (binding) {
      case NumaBinding::kNode:
        add_cpus(*node, *cpus);
        break;
      case NumaBinding::kSocket:
        cpus = cpus_of_socket(topology, node->cpus.front().socket);
        break;
      case NumaBinding::kExclusive: {
        const auto sharers = static_cast<int>(std::ranges::count(homes, *home));
        cpus = share_of_cores(*node, index, sharers);
        break;
      }
      case NumaBinding::kCoreComplex:
        cpus = core_complex(*node, index);
    }
    if (!cpus) return cpus.error();
    out.push_back(*std::move(cpus));
  }
  return out;
}

}  // namespace ddprun
