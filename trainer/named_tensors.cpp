#include "trainer/named_tensors.hpp"

#include "base/check.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <memory>
#include <span>

namespace ddprun {
namespace {

constexpr char kMomentum[] = "momentum_buffer.";

DType dtype_of(const torch::Tensor& tensor) {
  switch (tensor.scalar_type()) {
    case torch::kFloat32:
      return DType::kF32;
    case torch::kInt64:
      return DType::kI64;
    default:
      DDPRUN_CHECK(tensor.scalar_type() == torch::kUInt8);
      return DType::kU8;
  }
}

TensorView view_of(const std::string& name, const torch::Tensor& tensor) {
  DDPRUN_CHECK(tensor.is_contiguous());
  return {
      .name = name,
      .dtype = dtype_of(tensor),
      .shape = tensor.sizes().vec(),
      .bytes = {static_cast<const std::byte*>(tensor.const_data_ptr()), tensor.nbytes()}};
}

}  // namespace

NamedTensors model_tensors(const Model& model) {
  NamedTensors tensors;
  for (const auto& item : model.named_parameters()) {
    tensors.emplace_back(item.key(), item.value().detach());
  }
  for (const auto& item : model.named_buffers()) {
    tensors.emplace_back(item.key(), item.value());
  }
  return tensors;
}

NamedTensors momentum_tensors(const Model& model, torch::optim::SGD& optimizer) {
  NamedTensors tensors;
  for (const auto& item : model.named_parameters()) {
    const auto found = optimizer.state().find(item.value().unsafeGetTensorImpl());
    if (found == optimizer.state().end()) continue;
    const auto& state = static_cast<const torch::optim::SGDParamState&>(*found->second);
    if (!state.momentum_buffer().defined()) continue;
    tensors.emplace_back(kMomentum + item.key(), state.momentum_buffer());
  }
  return tensors;
}

NamedTensors make_momentum(const Model& model, torch::optim::SGD& optimizer) {
  for (const torch::Tensor& parameter : model.parameters()) {
    auto state = std::make_unique<torch::optim::SGDParamState>();
    state->momentum_buffer(torch::zeros_like(parameter.detach()));
    optimizer.state()[parameter.unsafeGetTensorImpl()] = std::move(state);
  }
  return momentum_tensors(model, optimizer);
}

std::vector<TensorView> views_of(const NamedTensors& tensors) {
  std::vector<TensorView> views;
  for (const auto& [name, tensor] : tensors) {
    views.push_back(view_of(name, tensor));
  }
  return views;
}

Result<void> fill(const NamedTensors& tensors, const std::vector<TensorView>& views) {
  for (const auto& [name, tensor] : tensors) {
    const auto found = std::ranges::find(views, name, &TensorView::name);
    const bool fits = found != views.end() && found->dtype == dtype_of(tensor) &&
                      found->shape == tensor.sizes().vec();
    if (!fits) {
      return make_error(
          Errc::kCorrupt,
          fmt::format("tensor '{}' is missing or of another shape than the model's", name));
    }
    std::memcpy(tensor.mutable_data_ptr(), found->bytes.data(), found->bytes.size());
  }
  return {};
}

}  // namespace ddprun
