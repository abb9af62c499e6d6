#pragma once

// The tensors of a model and its optimizer, by their names in a snapshot.

#include "base/error.hpp"
#include "trainer/core/safetensors.hpp"
#include "trainer/model.hpp"

#include <torch/torch.h>

#include <string>
#include <utility>
#include <vector>

namespace ddprun {

/// Each shares its memory with the named one in the model or optimizer.
using NamedTensors = std::vector<std::pair<std::string, torch::Tensor>>;

/// Parameters and buffers, as in Python's state_dict.
NamedTensors model_tensors(const Model& model);

/// Views into `tensors`. REQUIRES: each is contiguous, of float32, int64 or uint8.
std::vector<TensorView> views_of(const NamedTensors& tensors);

/// Overwrites each tensor with the view of the same name. Fails with kCorrupt if none fits; some
/// tensors may be overwritten then.
Result<void> fill(const NamedTensors& tensors, const std::vector<TensorView>& views);

}  // namespace ddprun
