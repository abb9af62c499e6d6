#pragma once

#include "base/environment.hpp"
#include "base/error.hpp"
#include "launcher/flags/core/flags.hpp"
#include "slurm/core/allocation.hpp"

#include <optional>
#include <string>
#include <vector>

namespace ddprun {

/// What --independent, if it is given, says of other flags: one node and one worker, whatever Slurm
/// has. Fails with kInvalidArgument where they say something else, or the step has more tasks.
Result<void> fill_for_independent(const std::optional<Allocation>& step, CommandLine& line);

/// CUDA_VISIBLE_DEVICES of each of `count` jobs side by side, where this machine has `gpus`: one
/// entry each. None where there are no GPUs to share out. Fails with kInvalidArgument where there
/// are fewer than jobs.
Result<std::vector<std::optional<std::string>>> share_devices(
    int count, int gpus, const Environment& environment);

}  // namespace ddprun
