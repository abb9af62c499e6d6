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
  DDPRUN_CHECK(tensor.is_cpu() && tensor.is_contiguous());
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
          fmt::format("tensor '{}' is missing or has another shape than the model's", name));
    }
    const torch::Tensor host = tensor.is_cpu() ? tensor : torch::empty_like(tensor, torch::kCPU);
    std::memcpy(host.mutable_data_ptr(), found->bytes.data(), found->bytes.size());
    if (!tensor.is_cpu()) tensor.copy_(host);
  }
  return {};
}

}  // namespace ddprun
