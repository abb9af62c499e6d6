#pragma once

#include <torch/torch.h>

#include <vector>

namespace ddprun {

/// The norm of all gradients of `parameters` as one vector: the square root of the sum of squares
/// of each norm; 0 without gradients. A float32 value in a double, as Python's
/// clip_grad_norm_(…).item() yields it.
double gradient_norm(const std::vector<torch::Tensor>& parameters);

/// Scales all gradients by max_norm / (norm + 1e-6), but at most by 1, and returns the norm before:
/// Python's torch.nn.utils.clip_grad_norm_, bit for bit. A norm that is not finite makes the
/// gradients not finite: a GradScaler then skips the step.
///
/// REQUIRES: gradients that are averaged over all ranks and unscaled (P16), so that all ranks clip
/// alike; max_norm > 0.
double clip_gradients(const std::vector<torch::Tensor>& parameters, double max_norm);

}  // namespace ddprun
