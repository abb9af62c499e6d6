#pragma once

#include "trainer/core/options.hpp"

#include <torch/torch.h>

#include <memory>
#include <string>

namespace ddprun {

/// An image classifier that knows which loss belongs to its output.
class Model : public torch::nn::Module {
 public:
  /// (N, 1, 28, 28) float32 → (N, 10), one score per class.
  virtual torch::Tensor forward(torch::Tensor images) = 0;

  /// The mean loss over the batch, a scalar. `labels` is (N) int64.
  virtual torch::Tensor loss(const torch::Tensor& output, const torch::Tensor& labels) const = 0;
};

/// Builds a model with the default initialisation, drawn from the default generator in the order in
/// which Python's constructor of the same model draws (rule P3): seed it just before.
///
/// convnet: Conv(1,32,3) ReLU Conv(32,64,3) ReLU MaxPool2 Flatten Linear(9216,128) ReLU
/// Linear(128,10), mean cross entropy. simple_conv_net: the same layers with dropout 0.25 behind
/// the pooling and 0.5 behind the first linear layer, log_softmax and NLL.
std::shared_ptr<Model> make_model(ModelKind kind);

/// sha256, in 64 hex digits, of the raw bytes of all parameters in parameters() order (P20).
std::string weights_sha256(const torch::nn::Module& model);

}  // namespace ddprun
