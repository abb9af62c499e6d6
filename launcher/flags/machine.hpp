#pragma once

// What the flags need to know about this machine.

#include "launcher/flags/core/flags.hpp"

#include <filesystem>
#include <set>

namespace ddprun {

/// The CPUs in this process's affinity mask.
std::set<int> affine_cpus();

/// The number of CPUs that this process may use: its affinity mask, limited by the quotas of its
/// cgroup (v2) and of the parents, at least 1. The quotas are read below `root`.
int usable_cpus(const std::filesystem::path& root = "/");

/// The number of accelerators that workers would see: NVIDIA devices, limited by
/// CUDA_VISIBLE_DEVICES as in CUDA, else AMD devices, limited by HIP_VISIBLE_DEVICES or
/// ROCR_VISIBLE_DEVICES. Reads only device files below `root`: loads no driver library and creates
/// no context.
int visible_gpus(const Environment& environment, const std::filesystem::path& root = "/");

/// Whether the workers are to use GPUs: some exist, or CUDA_VISIBLE_DEVICES names some.
bool wants_gpus(const Environment& environment);

}  // namespace ddprun
