#pragma once

#include "trainer/core/options.hpp"

namespace ddprun {

/// Sets how torch computes: --deterministic, --tf32, --cudnn-benchmark. Call it once per process,
/// after open_device() and before the first tensor of the device.
void choose_numerics(const TrainOptions& options);

}  // namespace ddprun
