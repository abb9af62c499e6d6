#pragma once

// What the kernel says of NUMA nodes, CPUs and NVIDIA's GPUs: files below /sys and /proc, and no
// library, so that it works alike with and without GPUs and in containers.

#include "launcher/flags/core/flags.hpp"
#include "launcher/flags/core/numa.hpp"

#include <filesystem>
#include <set>
#include <vector>

namespace ddprun {

/// The NUMA nodes of which some CPU is in `allowed`, below `root`. Fails with kInvalidArgument
/// where the kernel does not say what `binding` has to know.
Result<NumaTopology> read_numa_topology(
    NumaBinding binding, const std::set<int>& allowed, const std::filesystem::path& root = "/");

/// The NUMA nodes of the visible NVIDIA GPUs, in CUDA's order of equal GPUs, which is that of their
/// PCI addresses; empty: there is none. Fails with kInvalidArgument where that cannot be known.
Result<std::vector<int>> numa_nodes_of_gpus(
    const NumaTopology& topology,
    const Environment& environment,
    const std::filesystem::path& root = "/");

}  // namespace ddprun
