#include "trainer/core/model_cost.hpp"

#include "base/check.hpp"

namespace ddprun {
namespace {

struct Convolution {
  std::int64_t in = 1;   // channels
  std::int64_t out = 1;  // channels
  std::int64_t kernel = 1;
};

/// The cost of a convolution with an output of `side` x `side` pixels.
std::int64_t flops(const Convolution& convolution, std::int64_t side) {
  return 2 * convolution.in * convolution.out * convolution.kernel * convolution.kernel * side *
         side;
}

/// The cost of a linear layer for one row.
std::int64_t linear_flops(std::int64_t in, std::int64_t out) {
  return 2 * in * out;
}

/// The cost of two 3x3 convolutions without padding and a pooling by two, up to 128 features.
std::int64_t conv_net_flops(const ImageShape& image) {
  const std::int64_t pooled = (image.side - 4) / 2;
  return flops({.in = image.channels, .out = 32, .kernel = 3}, image.side - 2) +
         flops({.in = 32, .out = 64, .kernel = 3}, image.side - 4) +
         linear_flops(64 * pooled * pooled, 128);
}

/// The side after a layer of stride 2: half, rounded up.
std::int64_t halved(std::int64_t side) {
  return (side - 1) / 2 + 1;
}

std::int64_t resnet_flops(const ResnetShape& shape, const ModelOptions& options) {
  std::int64_t side = halved(options.image.side);
  std::int64_t sum = flops({.in = options.image.channels, .out = 64, .kernel = 7}, side);
  side = halved(side);
  std::int64_t in = 64;
  std::int64_t planes = 64;
  for (const int blocks : shape.blocks) {
    const std::int64_t out = shape.is_bottleneck ? 4 * planes : planes;
    for (int block = 0; block < blocks; ++block) {
      const bool halves = block == 0 && planes > 64;
      const std::int64_t before = side;
      if (halves) side = halved(side);
      if (shape.is_bottleneck) {  // the 3x3 has the stride
        sum += flops({.in = in, .out = planes, .kernel = 1}, before) +
               flops({.in = planes, .out = planes, .kernel = 3}, side) +
               flops({.in = planes, .out = out, .kernel = 1}, side);
      } else {
        sum += flops({.in = in, .out = planes, .kernel = 3}, side) +
               flops({.in = planes, .out = planes, .kernel = 3}, side);
      }
      if (block == 0 && (halves || in != out)) {
        sum += flops({.in = in, .out = out, .kernel = 1}, side);
      }
      in = out;
    }
    planes *= 2;
  }
  return sum + linear_flops(in, options.classes);
}

std::int64_t vit_flops(const VitShape& shape, const ModelOptions& options) {
  const std::int64_t side = options.image.side / shape.patch;
  const std::int64_t tokens = shape.tokens(options.image.side);
  // QK', then its product with V.
  const std::int64_t attention = std::int64_t{2} * 2 * tokens * tokens * shape.width;
  const std::int64_t block =
      tokens * (linear_flops(shape.width, 3 * shape.width) +
                linear_flops(shape.width, shape.width) + 2 * linear_flops(shape.width, shape.mlp)) +
      attention;
  return flops({.in = options.image.channels, .out = shape.width, .kernel = shape.patch}, side) +
         shape.depth * block + linear_flops(shape.width, options.classes);
}

}  // namespace

std::int64_t forward_flops(const ModelOptions& options) {
  DDPRUN_CHECK(check_model(options).has_value());
  if (const auto resnet = resnet_shape(options.kind)) return resnet_flops(*resnet, options);
  if (const auto vit = vit_shape(options.kind)) return vit_flops(*vit, options);
  const ImageShape& image = options.image;
  switch (options.kind) {
    case ModelKind::kDummy:
      return linear_flops(1, options.classes);
    case ModelKind::kLinear:
      return linear_flops(image.channels * image.side * image.side, options.classes);
    case ModelKind::kMyNet:
      return conv_net_flops(image) + linear_flops(128, 20) + linear_flops(20, options.classes);
    default:
      return conv_net_flops(image) + linear_flops(128, options.classes);
  }
}

}  // namespace ddprun
