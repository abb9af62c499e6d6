#pragma once

// --numa-binding: which CPUs each worker of a node is bound to, decided from what the kernel says
// of the machine. The modes and what they mean are torchrun's (torch/numa/binding.py, 2.11), where
// a worker belongs to the GPU of its local rank. Here it also works without GPUs.

#include "base/error.hpp"

#include <cstdint>
#include <optional>
#include <set>
#include <string_view>
#include <vector>

namespace ddprun {

enum class NumaBinding : std::uint8_t {
  kNode,         // all CPUs of the NUMA node
  kSocket,       // all CPUs of all NUMA nodes of its socket
  kExclusive,    // a share of its physical cores that nobody else has
  kCoreComplex,  // the CPUs of it that share one last-level cache
};

std::optional<NumaBinding> parse_numa_binding(std::string_view text);

/// "0-3,8" as the kernel writes it; empty text is no CPU. Fails with kCorrupt.
Result<std::set<int>> parse_cpu_list(std::string_view text);

struct NumaCpu {
  int number = 0;
  int socket = 0;
  int core = 0;   // the lowest CPU of the same physical core
  int cache = 0;  // the lowest CPU under the same last-level cache
};

struct NumaNode {
  int number = 0;
  std::vector<NumaCpu> cpus;  // that this process may use, by number; at least one
};

using NumaTopology = std::vector<NumaNode>;  // by number

/// The NUMA node that each of `workers` belongs to if no GPU decides: neighbours in rank on the
/// same node, and as many on each node as can be. REQUIRES: `topology` is not empty.
std::vector<int> spread_over_nodes(const NumaTopology& topology, int workers);

/// The CPUs of local ranks 0 to workers - 1. `homes`: by local rank the NUMA node of its GPU; there
/// may be more, of GPUs that no worker uses but that have a share of the cores all the same.
/// Fails with kInvalidArgument. REQUIRES: at least `workers` homes.
Result<std::vector<std::set<int>>> bind_to_numa(
    const NumaTopology& topology, NumaBinding binding, const std::vector<int>& homes, int workers);

}  // namespace ddprun
