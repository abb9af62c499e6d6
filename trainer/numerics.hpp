#pragma once

#include "trainer/core/options.hpp"

namespace ddprun {

/// Tells torch how to calculate: --deterministic, --tf32, --cudnn-benchmark. For the whole process,
/// once, behind open_device() and before the first tensor of the device's.
void choose_numerics(const TrainOptions& options);

}  // namespace ddprun
