#pragma once

#include "base/error.hpp"
#include "trainer/core/options.hpp"
#include "trainer/process_group.hpp"

#include <torch/torch.h>

namespace ddprun {

/// Compares the bytes of all parameters on all ranks, by their SHA-256. Fails with kBadNumbers on
/// every rank, naming those that differ from the majority. Collective. Does not compare buffers:
/// each rank has its own between two forward passes (P9).
Result<void> check_replicas(const torch::nn::Module& model, const ProcessGroup& group);

Result<void> check_same_flags(const TrainOptions& options, const ProcessGroup& group);

}  // namespace ddprun
