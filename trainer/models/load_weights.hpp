#pragma once

#include "base/error.hpp"
#include "trainer/core/load_plan.hpp"
#include "trainer/core/safetensors.hpp"
#include "trainer/model.hpp"

#include <vector>

namespace ddprun {

/// Overwrites the model's parameters and buffers by the tensors of their names, converted where the
/// floats of the file are wider or narrower. What the file has not, and a head of another number
/// of classes, keeps its values and is reported. Fails as plan_load does, and then leaves the model
/// as it was. REQUIRES: the model lies on the CPU.
Result<LoadReport> load_weights(Model const& model, const std::vector<TensorView>& views);

}  // namespace ddprun
