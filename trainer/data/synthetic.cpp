#include "trainer/data/synthetic.hpp"

#include "base/check.hpp"

#include <ATen/CPUGeneratorImpl.h>
#include <torch/torch.h>

#include <algorithm>
#include <cmath>
#include <utility>

namespace ddprun {
namespace {

at::Generator generator_of(std::int64_t sample) {
  return at::detail::createCPUGenerator(static_cast<std::uint64_t>(sample));
}

/// Adds to each value of a plane 0.3 of the one before it, along rows or columns, with wrap-around.
/// In place and backwards, so that it adds the old value of the neighbour.
void smear(std::span<float> plane, std::size_t length, std::size_t stride) {
  constexpr float kShare = 0.3F;
  for (std::size_t start = 0; start < plane.size(); ++start) {
    const bool is_first = start / stride % length == 0;
    if (!is_first) continue;
    const float last = plane[start + (length - 1) * stride];
    for (std::size_t at = length - 1; at > 0; --at) {
      plane[start + at * stride] += kShare * plane[start + (at - 1) * stride];
    }
    plane[start] += kShare * last;
  }
}

void standardise(std::span<float> values) {
  double sum = 0;
  for (const float value : values) {
    sum += static_cast<double>(value);
  }
  const double mean = sum / static_cast<double>(values.size());
  double squares = 0;
  for (const float value : values) {
    const double difference = static_cast<double>(value) - mean;
    squares += difference * difference;
  }
  const double deviation =
      std::sqrt(squares / std::max(static_cast<double>(values.size()) - 1, 1.0));
  for (float& value : values) {
    value = static_cast<float>((static_cast<double>(value) - mean) / std::max(deviation, 1e-12));
  }
}

}  // namespace

FakeImages::FakeImages(const Options& options)
    : options_(options),
      classes_(numbered_classes(options.classes)),
      labels_(static_cast<std::size_t>(options.size)) {
  DDPRUN_CHECK(options.channels == 1 || options.channels == 3);
  for (std::atomic<std::int32_t>& label : labels_) {
    label.store(-1, std::memory_order_relaxed);
  }
}

std::int64_t FakeImages::label(std::int64_t sample) const {
  DDPRUN_CHECK(sample >= 0 && sample < size());
  const std::atomic<std::int32_t>& known = labels_[static_cast<std::size_t>(sample)];
  if (known.load(std::memory_order_relaxed) < 0) static_cast<void>(read(sample).has_value());
  return known.load(std::memory_order_relaxed);
}

Result<Image> FakeImages::read(std::int64_t sample) const {
  DDPRUN_CHECK(sample >= 0 && sample < size());
  const at::Generator generator = generator_of(sample);
  const torch::Tensor noise =
      torch::randn({options_.channels, options_.image.height, options_.image.width}, generator);
  const auto label =
      torch::randint(0, options_.classes, {1}, generator, torch::kInt64).item<std::int64_t>();
  labels_[static_cast<std::size_t>(sample)].store(
      static_cast<std::int32_t>(label), std::memory_order_relaxed);

  Image image{
      .size = options_.image,
      .channels = options_.channels,
      .layout = Image::Layout::kPlanar,
      .pixels = std::vector<std::uint8_t>(static_cast<std::size_t>(noise.numel()))};
  const std::span values(noise.const_data_ptr<float>(), image.pixels.size());
  // ToPILImage's mul(255).byte(): rounded towards zero, then the lowest eight bits.
  std::ranges::transform(values, image.pixels.begin(), [](float value) {
    return static_cast<std::uint8_t>(static_cast<std::int64_t>(value * 255.0F));
  });
  return image;
}

SampleShape SmearedNoise::shape() const {
  return {.channels = 3, .height = options_.side, .width = options_.side};
}

Result<void> SmearedNoise::write(const SampleKey& key, std::span<float> out) const {
  constexpr int kSmears = 3;
  DDPRUN_CHECK(std::ssize(out) == shape().floats());
  const torch::Tensor noise =
      torch::randn({3, options_.side, options_.side}, generator_of(key.sample));
  std::copy_n(noise.const_data_ptr<float>(), out.size(), out.begin());
  const auto side = static_cast<std::size_t>(options_.side);
  for (std::size_t c = 0; c < 3; ++c) {
    const std::span<float> plane = out.subspan(c * side * side, side * side);
    for (int i = 0; i < kSmears; ++i) {
      smear(plane, side, side);
      smear(plane, side, 1);
    }
  }
  standardise(out);
  return {};
}

}  // namespace ddprun
