#pragma once

// Optimizers with the results of Python's torch.optim on a CPU, bit for bit. In libtorch's own,
// Adam and AdamW round differently and Adadelta is missing (rule P14).

#include "trainer/core/optimizer_options.hpp"
#include "trainer/named_tensors.hpp"
#include "trainer/update_rule.hpp"

#include <torch/torch.h>

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace ddprun {

/// Updates the parameters of one model by their gradients. Used by one thread.
class Optimizer {
 public:
  using Parameters = torch::OrderedDict<std::string, torch::Tensor>;

  Optimizer(std::unique_ptr<UpdateRule> rule, double learning_rate, const Parameters& parameters);

  /// Updates every parameter that has a gradient, and keeps no reference to the gradient's memory:
  /// it may be set to none, or be a view of a bucket. REQUIRES: gradients are dense.
  void step();

  /// Sets the rate of the following steps. REQUIRES: finite, not negative.
  void set_learning_rate(double learning_rate);
  double learning_rate() const { return learning_rate_; }

  /// The state between steps, under the names `<parameter>.<key>` with the keys of Python's
  /// state_dict; `<parameter>.step` is a float32 scalar. Nothing for a parameter that has had no
  /// gradient yet, unless Python creates the state with the optimizer (Adagrad).
  NamedTensors state() const;

  /// Which parameters have a state: (parameters) uint8, each 1 or 0, in the order of parameters().
  torch::Tensor has_state() const;

  /// Gives each parameter marked in `has_state` a state of zeros, to be overwritten; yields
  /// state(). The others get theirs with their first gradient, as after Python's load_state_dict().
  NamedTensors make_state(const torch::Tensor& has_state);

  /// The same for the parameters that have a tensor in `saved`.
  NamedTensors make_state(const std::vector<TensorView>& saved);

  /// In the order given; they share memory, including gradients, with the model.
  const std::vector<torch::Tensor>& parameters() const { return parameters_; }

 private:
  /// The state of one parameter.
  struct Slot {
    std::string name;
    torch::Tensor step;                // scalar float32 on the CPU; undefined: no state yet
    std::vector<torch::Tensor> state;  // in the order of keys_
  };

  void make_slot(Slot& slot, const torch::Tensor& parameter) const;
  void update(const Slot& slot, const torch::Tensor& parameter);
  void update_in_stretches(const Stretch& whole);
  Stretch cut(const Stretch& whole, std::int64_t begin, std::int64_t size) const;
  void make_spare(std::int64_t elements, const torch::TensorOptions& options);

  std::unique_ptr<UpdateRule> rule_;
  std::vector<std::string> keys_;
  double learning_rate_;
  std::vector<torch::Tensor> parameters_;
  std::vector<Slot> slots_;             // one for each of parameters_
  std::array<torch::Tensor, 3> spare_;  // flat, as large as the largest stretch so far
};

/// REQUIRES: check_optimizer(options).
std::unique_ptr<Optimizer> make_optimizer(
    const OptimizerOptions& options, const Optimizer::Parameters& parameters);

}  // namespace ddprun
