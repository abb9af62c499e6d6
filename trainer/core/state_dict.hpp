#pragma once

// Finds the weights and the optimizer of a training in files of Python programs, and converts them.

#include "trainer/core/python_value.hpp"

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun {

/// The prefix that DistributedDataParallel adds to each name of the wrapped model.
inline constexpr std::string_view kWrapperPrefix = "module.";

/// The weights in a file.
struct StateDict {
  std::string place;                // the key of the dict; empty: the file itself
  bool had_prefix = false;          // all names had kWrapperPrefix, which is removed here
  std::vector<TensorView> tensors;  // in the order of the file, named
};

/// Finds a state dict: the value itself if it is a dict of tensors, else the first that exists
/// under `model`, `model_state_dict`, `model_state`, `state_dict`, `net` or `MODEL_STATE`. Fails
/// with kInvalidArgument if there is none, naming the existing keys.
Result<StateDict> find_state_dict(const PyValue& root);

/// The same without a file: removes kWrapperPrefix if every name has it.
StateDict state_dict_of(std::vector<TensorView> tensors);

/// A dict of these tensors, with `prefix` before each name.
PyDict to_dict(const std::vector<TensorView>& tensors, std::string_view prefix = {});

/// The dict of the optimizer in a file of a program: under `optimizer`, `optimizer_state_dict`,
/// `optimizer_state`, `optim_state` or `OPTIMIZER_STATE`. Null: there is none.
const PyValue* find_optimizer(const PyValue& root);

/// An optimizer's state by parameter.
struct OptimizerState {
  std::vector<TensorView> tensors;              // named PARAMETER.KEY, such as "fc.weight.exp_avg"
  std::vector<PyDict> groups;                   // Python's param_groups, without `params`
  std::vector<std::vector<std::byte>> numbers;  // storage of those tensors that were numbers
};

/// Reads the state_dict() of a Python optimizer. `parameters` are the names in the optimizer's
/// order. Fails with kInvalidArgument if the number of parameters differs or the dict has another
/// form.
Result<OptimizerState> read_optimizer(
    const PyValue& dict, const std::vector<std::string>& parameters);

/// The argument of load_state_dict() of Python's optimizer: `tensors` named PARAMETER.KEY or
/// KEY.PARAMETER, and one group with the settings of `group`. Fails with kInvalidArgument, naming
/// the tensor, if it belongs to none of `parameters`.
Result<PyValue> write_optimizer(
    const std::vector<TensorView>& tensors,
    const std::vector<std::string>& parameters,
    const PyDict& group);

}  // namespace ddprun
