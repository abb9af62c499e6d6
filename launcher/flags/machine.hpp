#pragma once

// What the flags want to know of this machine.

#include "launcher/flags/core/flags.hpp"

#include <filesystem>
#include <set>

namespace ddprun {

/// The CPUs in this process's affinity mask.
std::set<int> affine_cpus();

/// CPUs this process may use: its affinity, cut by the quotas of its cgroup (v2) and of those above
/// it, at least 1. `root` stands for "/" where the quotas are read.
int usable_cpus(const std::filesystem::path& root = "/");

/// Accelerators the workers would see: NVIDIA devices, cut by CUDA_VISIBLE_DEVICES as CUDA does it,
/// else AMD ones, cut by HIP_VISIBLE_DEVICES or ROCR_VISIBLE_DEVICES. Looks at device files under
/// `root` only: no driver library is loaded and no context is made.
int visible_gpus(const Environment& environment, const std::filesystem::path& root = "/");

/// Whether the workers are to have GPUs: there are some, or CUDA_VISIBLE_DEVICES names some.
bool wants_gpus(const Environment& environment);

}  // namespace ddprun
