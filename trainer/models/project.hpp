#pragma once

#include <torch/torch.h>

namespace ddprun {

/// What Python's nn.Linear computes of `x`, (…, in) → (…, out), and in its order. libtorch's own
/// forward() has other bits: it multiplies and adds in two steps when `x` has more than two
/// dimensions, and hands autocast the transposed weight, so that the gradient of the weight itself
/// comes later than Python's, and may fall into another bucket.
inline torch::Tensor project(const torch::nn::Linear& layer, const torch::Tensor& x) {
  return torch::linear(x, layer->weight, layer->bias);
}

}  // namespace ddprun
