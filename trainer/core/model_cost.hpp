#pragma once

#include "trainer/core/model_kind.hpp"

#include <cstdint>

namespace ddprun {

/// Floating-point operations of the forward pass of one image, with a multiply-add counted as two:
/// convolutions, linear layers and the two products of attention, as torch.utils.flop_counter
/// counts them; without biases, norms, activations and pooling. A training step costs about three
/// times as much. REQUIRES: check_model(options).
std::int64_t forward_flops(const ModelOptions& options);

}  // namespace ddprun
