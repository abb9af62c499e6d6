#pragma once

// The tensors of a model and its optimizer, by the names they have in a snapshot.

#include "base/error.hpp"
#include "trainer/core/safetensors.hpp"
#include "trainer/model.hpp"

#include <torch/torch.h>

#include <string>
#include <utility>
#include <vector>

namespace ddprun {

/// Each shares its memory with the one in the model or optimizer that it names.
using NamedTensors = std::vector<std::pair<std::string, torch::Tensor>>;

/// Parameters and buffers, as in Python's state_dict.
NamedTensors model_tensors(const Model& model);

/// Views that point into `tensors`. REQUIRES: each is contiguous, of float32, int64 or uint8.
std::vector<TensorView> views_of(const NamedTensors& tensors);

/// Overwrites each tensor by the view of its name. Fails with kCorrupt when there is none that
/// fits; some are overwritten by then.
Result<void> fill(const NamedTensors& tensors, const std::vector<TensorView>& views);

}  // namespace ddprun
