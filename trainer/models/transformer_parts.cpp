#include "trainer/models/transformer_parts.hpp"

#include <cmath>
#include <numbers>

namespace ddprun {

namespace nn = torch::nn;

Mlp::Mlp(std::int64_t width, std::int64_t hidden, double dropout) {
  first = register_module("0", nn::Linear(width, hidden));
  second = register_module("3", nn::Linear(hidden, width));
  dropout_ = register_module("dropout", nn::Dropout(dropout));
}

torch::Tensor Mlp::forward(const torch::Tensor& x) {
  return dropout_(project(second, dropout_(torch::gelu(project(first, x)))));
}

void fill_trunc_normal(const torch::Tensor& tensor, double std) {
  constexpr double kCut = 2;
  // The share of values below each cut, as a quantile of erfinv: 2 * Phi - 1.
  const auto quantile = [std](double cut) {
    const double below = (1.0 + std::erf(cut / std / std::numbers::sqrt2)) / 2.0;
    return 2 * below - 1;
  };
  const torch::NoGradGuard no_gradients;
  tensor.uniform_(quantile(-kCut), quantile(kCut));
  tensor.erfinv_().mul_(std * std::numbers::sqrt2).clamp_(-kCut, kCut);
}

torch::Tensor tokens_of(
    const torch::Tensor& images, nn::Conv2d& patches, const torch::Tensor& class_token) {
  const torch::Tensor of_patches = patches(images).flatten(2).transpose(1, 2);
  return torch::cat({class_token.expand({images.size(0), -1, -1}), of_patches}, /*dim=*/1);
}

}  // namespace ddprun
