#pragma once

// The parts of both vision transformers.

#include "trainer/models/project.hpp"

#include <torch/torch.h>

#include <cstdint>

namespace ddprun {

/// The two linear layers after the attention of a block, "0" and "3", with GELU between them and
/// dropout after each: (…, width) → (…, width). Draws as nn.Sequential(Linear, GELU, Dropout,
/// Linear, Dropout) does.
class Mlp final : public torch::nn::Module {
 public:
  Mlp(std::int64_t width, std::int64_t hidden, double dropout);

  torch::Tensor forward(const torch::Tensor& x);

  torch::nn::Linear first{nullptr};
  torch::nn::Linear second{nullptr};

 private:
  torch::nn::Dropout dropout_{nullptr};
};

/// Draws `tensor` from the normal distribution with mean 0 and deviation `std`, truncated at -2 and
/// 2 (not at two deviations): torch.nn.init.trunc_normal_, which libtorch lacks, bit for bit.
void fill_trunc_normal(const torch::Tensor& tensor, double std);

/// (N, channels, side, side) → (N, patches + 1, width): the class token, (1, 1, width), followed by
/// a token for each patch, made by `patches`, whose stride equals its kernel size.
torch::Tensor tokens_of(
    const torch::Tensor& images, torch::nn::Conv2d& patches, const torch::Tensor& class_token);

}  // namespace ddprun
