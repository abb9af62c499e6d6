#pragma once

// The formulas of the optimizers without the bookkeeping: the update of one stretch of one
// parameter. optimizer.cpp cuts the parameters and keeps the state.
//
// Each rule is the sequence of tensor operations of Python's torch.optim class of the same name
// (2.11, its path on a CPU, _single_tensor_…). The bits depend on which operations round, so none
// may be fused, reordered or replaced by one that is mathematically equal.

#include "trainer/core/optimizer_options.hpp"

#include <torch/torch.h>

#include <array>
#include <memory>
#include <string>
#include <vector>

namespace ddprun {

/// A stretch of a parameter with its tensors, which all have its shape and strides.
struct Stretch {
  torch::Tensor weights;               // updated in place
  torch::Tensor gradient;              // only read
  std::vector<torch::Tensor> state;    // updated in place; in the order of UpdateRule::keys()
  std::array<torch::Tensor, 3> spare;  // scratch, may be overwritten
};

/// Values that are the same for all stretches of one parameter in one step.
struct UpdateMoment {
  double learning_rate = 0;
  double step = 1;        // of this parameter, from 1
  bool is_first = false;  // the state was created for this step, and holds zeros
};

class UpdateRule {
 public:
  UpdateRule() = default;
  virtual ~UpdateRule() = default;
  UpdateRule(const UpdateRule&) = delete;
  UpdateRule& operator=(const UpdateRule&) = delete;

  /// The names in Python's state_dict, in its order, of the tensors of the parameter's shape that
  /// are kept between steps. All start as zeros.
  virtual std::vector<std::string> keys() const = 0;

  /// Whether Python's state_dict has a `step` before them: a float32 scalar.
  virtual bool counts_steps() const { return true; }

  /// Whether Python creates the state with the optimizer; else with the first gradient.
  virtual bool starts_with_state() const { return false; }

  /// Call it before the stretches of each parameter.
  virtual void begin(const UpdateMoment& moment) = 0;

  virtual void update(const Stretch& stretch) = 0;
};

/// REQUIRES: check_optimizer(options).
std::unique_ptr<UpdateRule> make_update_rule(const OptimizerOptions& options);

}  // namespace ddprun
