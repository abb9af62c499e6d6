#include "trainer/data/torch_draws.hpp"

#include <torch/torch.h>

#include <utility>

namespace ddprun {

TorchDraws::TorchDraws(at::Generator generator) : generator_(std::move(generator)) {}

std::int64_t TorchDraws::below(std::int64_t n) {
  return torch::randint(0, n, {1}, generator_, torch::kInt64).item<std::int64_t>();
}

float TorchDraws::uniform(float low, float high) {
  return torch::empty({1}).uniform_(low, high, generator_).item<float>();
}

float TorchDraws::log_uniform(float low, float high) {
  const torch::Tensor logs = torch::tensor({low, high}).log();
  const torch::Tensor drawn =
      torch::empty({1}).uniform_(logs[0].item<double>(), logs[1].item<double>(), generator_);
  return drawn.exp().item<float>();
}

}  // namespace ddprun
