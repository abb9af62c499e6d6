#pragma once

#include <torch/torch.h>

namespace ddprun {

/// The result of Python's nn.Linear for `x`, (…, in) → (…, out), with its order of operations.
/// libtorch's own forward() has other bits: it multiplies and adds in two steps if `x` has more
/// than two dimensions, and passes autocast the transposed weight, so that the gradient of the
/// weight itself comes later than in Python, and may be in another bucket.
inline torch::Tensor project(const torch::nn::Linear& layer, const torch::Tensor& x) {
  return torch::linear(x, layer->weight, layer->bias);
}

}  // namespace ddprun
