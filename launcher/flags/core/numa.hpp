#pragma once

// --numa-binding: decides, from what the kernel reports about the machine, to which CPUs each
// worker of a node is bound. The modes are torchrun's (torch/numa/binding.py, 2.11), which binds a
// worker near the GPU of its local rank. Here they also work without GPUs.

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
  kExclusive,    // a share of its physical cores that no other worker has
  kCoreComplex,  // CPUs of the node that share one last-level cache
};

std::optional<NumaBinding> parse_numa_binding(std::string_view text);

/// Parses "0-3,8", the kernel's format; an empty text means no CPU. Fails with kCorrupt.
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

/// The NUMA node of each of `workers` if no GPU decides: neighbouring ranks share a node, and the
/// nodes get as equal numbers as possible. REQUIRES: `topology` is not empty.
std::vector<int> spread_over_nodes(const NumaTopology& topology, int workers);

/// The CPUs of local ranks 0 to workers - 1. `homes`: the NUMA node of the GPU of each local rank.
/// More entries than workers are allowed: a GPU that no worker uses still gets a share of the
/// cores. Fails with kInvalidArgument. REQUIRES: at least `workers` homes.
Result<std::vector<std::set<int>>> bind_to_numa(
    const NumaTopology& topology, NumaBinding binding, const std::vector<int>& homes, int workers);

}  // namespace ddprun
