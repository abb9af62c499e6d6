#pragma once

// What the kernel reports about NUMA nodes, CPUs and NVIDIA GPUs. Reads files below /sys and /proc
// and loads no library, so it works the same with and without GPUs and in containers.

#include "launcher/flags/core/flags.hpp"
#include "launcher/flags/core/numa.hpp"

#include <filesystem>
#include <set>
#include <vector>

namespace ddprun {

/// The NUMA nodes below `root` that have a CPU in `allowed`. Fails with kInvalidArgument if the
/// kernel does not report what `binding` needs.
Result<NumaTopology> read_numa_topology(
    NumaBinding binding, const std::set<int>& allowed, const std::filesystem::path& root = "/");

/// The NUMA nodes of the visible NVIDIA GPUs, ordered by PCI address, which is CUDA's order of
/// equal GPUs; empty if there are no GPUs. Fails with kInvalidArgument if they cannot be
/// determined.
Result<std::vector<int>> numa_nodes_of_gpus(
    const NumaTopology& topology,
    const Environment& environment,
    const std::filesystem::path& root = "/");

}  // namespace ddprun
