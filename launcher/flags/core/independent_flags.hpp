#pragma once

#include "base/environment.hpp"
#include "base/error.hpp"
#include "launcher/flags/core/flags.hpp"
#include "slurm/core/allocation.hpp"

#include <optional>
#include <string>
#include <vector>

namespace ddprun {

/// If --independent is given, sets the flags that it implies: one node and one worker, whatever
/// Slurm has. Fails with kInvalidArgument if another flag contradicts, or the step has more tasks.
Result<void> fill_for_independent(const std::optional<Allocation>& step, CommandLine& line);

/// CUDA_VISIBLE_DEVICES for each of `count` jobs that run side by side on a machine with `gpus`
/// GPUs: one entry each; nullopt if there are no GPUs. Fails with kInvalidArgument if there are
/// fewer GPUs than jobs.
Result<std::vector<std::optional<std::string>>> share_devices(
    int count, int gpus, const Environment& environment);

}  // namespace ddprun
