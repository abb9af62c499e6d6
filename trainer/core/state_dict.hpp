#pragma once

// The weights and the optimizer of a training, found in and put into what Python programs save.

#include "trainer/core/python_value.hpp"

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun {

/// What DistributedDataParallel puts before each name of the model within it.
inline constexpr std::string_view kWrapperPrefix = "module.";

/// The weights that a file holds.
struct StateDict {
  std::string place;                // the key they lie under; empty: they are the file
  bool had_prefix = false;          // all names had kWrapperPrefix, which is gone here
  std::vector<TensorView> tensors;  // in the order of the file, named
};

/// Looks for a state dict: the value itself if it is a dict of tensors, else what lies under
/// `model`, `model_state_dict`, `model_state`, `state_dict`, `net` or `MODEL_STATE`, the first of
/// them that is there. Fails with kInvalidArgument when there is none, naming the keys there are.
Result<StateDict> find_state_dict(const PyValue& root);

/// The same without a file around: takes kWrapperPrefix away if each name has it.
StateDict state_dict_of(std::vector<TensorView> tensors);

/// A dict of these tensors, each name behind `prefix`.
PyDict to_dict(const std::vector<TensorView>& tensors, std::string_view prefix = {});

/// Where the dict of the optimizer lies in what a program saved: under `optimizer`,
/// `optimizer_state_dict`, `optimizer_state`, `optim_state` or `OPTIMIZER_STATE`. Null: nowhere.
const PyValue* find_optimizer(const PyValue& root);

/// An optimizer's state by parameter.
struct OptimizerState {
  std::vector<TensorView> tensors;              // named PARAMETER.KEY, such as "fc.weight.exp_avg"
  std::vector<PyDict> groups;                   // Python's param_groups, without `params`
  std::vector<std::vector<std::byte>> numbers;  // what those tensors point into that were numbers
};

/// Reads what an optimizer's state_dict() of Python gave. `parameters` are the names in the order
/// in which it has them. Fails with kInvalidArgument when it is of another number of parameters or
/// has another form.
Result<OptimizerState> read_optimizer(
    const PyValue& dict, const std::vector<std::string>& parameters);

/// What load_state_dict() of Python's optimizer takes: `tensors` named PARAMETER.KEY or
/// KEY.PARAMETER, and one group with the settings of `group`. Fails with kInvalidArgument, naming
/// the tensor, when it belongs to none of `parameters`.
Result<PyValue> write_optimizer(
    const std::vector<TensorView>& tensors,
    const std::vector<std::string>& parameters,
    const PyDict& group);

}  // namespace ddprun
