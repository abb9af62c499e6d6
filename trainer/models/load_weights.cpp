#include "trainer/models/load_weights.hpp"

#include "base/check.hpp"

#include <cstring>

namespace ddprun {
namespace {

DType dtype_of(const torch::Tensor& tensor) {
  // A model's tensors are floats, or BatchNorm's count of batches.
  DDPRUN_CHECK(tensor.scalar_type() == torch::kFloat32 || tensor.scalar_type() == torch::kInt64);
  return tensor.scalar_type() == torch::kFloat32 ? DType::kF32 : DType::kI64;
}

torch::ScalarType torch_type_of(DType dtype) {
  switch (dtype) {
    case DType::kF64:
      return torch::kFloat64;
    case DType::kF32:
      return torch::kFloat32;
    case DType::kF16:
      return torch::kFloat16;
    case DType::kBF16:
      return torch::kBFloat16;
    default:
      DDPRUN_CHECK(dtype == DType::kI64);
      return torch::kInt64;
  }
}

/// A copy, because a view of a foreign file may have an alignment that tensors do not allow.
torch::Tensor tensor_of(const TensorView& view) {
  const torch::Tensor tensor = torch::empty(view.shape, torch_type_of(view.dtype));
  DDPRUN_CHECK(tensor.nbytes() == view.bytes.size());
  if (!view.bytes.empty()) {
    std::memcpy(tensor.mutable_data_ptr(), view.bytes.data(), view.bytes.size());
  }
  return tensor;
}

}  // namespace

Result<LoadReport> load_weights(Model const& model, const std::vector<TensorView>& views) {
  const auto state = state_of(model);
  std::vector<TensorSpec> specs;
  specs.reserve(state.size());
  for (const auto& [name, tensor] : state) {
    specs.push_back({.name = name, .dtype = dtype_of(tensor), .shape = tensor.sizes().vec()});
  }
  auto plan = plan_load(specs, views, model.head());
  if (!plan) return plan.error();
  for (const LoadPlan::Copy& copy : plan->copies) {
    const torch::Tensor& to = state[copy.to].second;
    to.copy_(tensor_of(views[copy.from]));
  }
  return {std::move(plan->report)};
}

}  // namespace ddprun
