#pragma once

#include "base/error.hpp"
#include "trainer/core/load_plan.hpp"
#include "trainer/core/safetensors.hpp"
#include "trainer/model.hpp"

#include <vector>

namespace ddprun {

/// Overwrites the model's parameters and buffers with the tensors of the same names; floats of
/// another width are converted. Tensors that the file lacks, and a head with another number of
/// classes, keep their values and are reported. Fails as plan_load does, and then leaves the model
/// unchanged. REQUIRES: the model is on the CPU.
Result<LoadReport> load_weights(Model const& model, const std::vector<TensorView>& views);

}  // namespace ddprun
