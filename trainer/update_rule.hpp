#pragma once

// The formulas of the optimizers, with the bookkeeping left out: what happens to one stretch of one
// parameter. optimizer.cpp cuts the parameters and keeps the state.
//
// Each rule is the sequence of tensor operations of Python's torch.optim class of the same name
// (2.11, the path that it takes on a CPU, _single_tensor_…): the bits depend on which operation
// rounds, so none may be fused, reordered or replaced by one that is equal on paper.

#include "trainer/core/optimizer_options.hpp"

#include <torch/torch.h>

#include <array>
#include <memory>
#include <string>
#include <vector>

namespace ddprun {

/// A stretch of a parameter with all that belongs to it. All tensors have its shape and strides.
struct Stretch {
  torch::Tensor weights;               // updated in place
  torch::Tensor gradient;              // only read
  std::vector<torch::Tensor> state;    // updated in place; in the order of UpdateRule::keys()
  std::array<torch::Tensor, 3> spare;  // holds anything; to be overwritten
};

/// What is the same for all stretches of one parameter in one step.
struct UpdateMoment {
  double learning_rate = 0;
  double step = 1;        // of this parameter, from 1
  bool is_first = false;  // the state was made for this step, and holds zeros
};

class UpdateRule {
 public:
  UpdateRule() = default;
  virtual ~UpdateRule() = default;
  UpdateRule(const UpdateRule&) = delete;
  UpdateRule& operator=(const UpdateRule&) = delete;

  /// The tensors of the parameter's shape that are kept between steps, by their names in Python's
  /// state_dict, in its order. All start as zeros.
  virtual std::vector<std::string> keys() const = 0;

  /// Whether Python's state_dict has a `step` before them: a float32 scalar.
  virtual bool counts_steps() const { return true; }

  /// Whether Python makes the state with the optimizer; else with the first gradient.
  virtual bool starts_with_state() const { return false; }

  /// To be called before the stretches of each parameter.
  virtual void begin(const UpdateMoment& moment) = 0;

  virtual void update(const Stretch& stretch) = 0;
};

/// REQUIRES: check_optimizer(options).
std::unique_ptr<UpdateRule> make_update_rule(const OptimizerOptions& options);

}  // namespace ddprun
