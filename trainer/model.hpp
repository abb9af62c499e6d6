#pragma once

#include "trainer/core/model_kind.hpp"

#include <torch/torch.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace ddprun {

/// An image classifier with its loss. docs/models.md lists the models.
class Model : public torch::nn::Module {
 public:
  /// (N, channels, side, side) float32 → (N, classes), one score per class.
  virtual torch::Tensor forward(torch::Tensor images) = 0;

  /// The mean loss over the batch, a scalar; cross entropy unless the model overrides it.
  /// `labels` is (N) int64.
  virtual torch::Tensor loss(const torch::Tensor& output, const torch::Tensor& labels) const;

  /// The layer that yields the scores, whose shape depends on the number of classes.
  virtual std::string head() const { return "fc"; }
};

/// Builds a model with the default initialisation, drawn from the default generator in the order of
/// Python's constructor of the same model (rule P3): seed the generator just before. REQUIRES:
/// check_model(options).
std::shared_ptr<Model> make_model(const ModelOptions& options);

/// The kind as its origin defines it.
std::shared_ptr<Model> make_model(ModelKind kind);

/// Parameters and buffers, sharing memory with the model's, in the order of Python's state_dict:
/// for each module its parameters, its buffers, then its children.
std::vector<std::pair<std::string, torch::Tensor>> state_of(const torch::nn::Module& model);

/// sha256, in 64 hex digits, of the raw bytes of all parameters in parameters() order (P20).
std::string weights_sha256(const torch::nn::Module& model);

/// The same for state_of(), which includes the buffers (P20).
std::string state_sha256(const torch::nn::Module& model);

}  // namespace ddprun
