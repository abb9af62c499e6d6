#include "trainer/core/augment.hpp"

#include "base/check.hpp"

#include <algorithm>
#include <array>
#include <cmath>

namespace ddprun {
namespace {

/// Python's round(): half rounds to even. The cores never change the rounding mode.
std::int64_t round_half_even(double value) {
  return static_cast<std::int64_t>(std::nearbyint(value));
}

constexpr std::uint32_t high_word(std::uint64_t product) {
  return static_cast<std::uint32_t>(product >> 32U);
}

constexpr std::uint32_t low_word(std::uint64_t product) {
  return static_cast<std::uint32_t>(product);
}

using Words = std::array<std::uint32_t, 4>;

/// Ten rounds of Philox4x32, with the constants of the paper.
Words philox(Words counter, std::uint64_t seed) {
  constexpr std::uint64_t kMultiplier0 = 0xD2511F53;
  constexpr std::uint64_t kMultiplier1 = 0xCD9E8D57;
  constexpr std::uint32_t kWeyl0 = 0x9E3779B9;
  constexpr std::uint32_t kWeyl1 = 0xBB67AE85;
  constexpr int kRounds = 10;
  std::uint32_t key0 = low_word(seed);
  std::uint32_t key1 = high_word(seed);
  for (int round = 0; round < kRounds; ++round) {
    const std::uint64_t product0 = kMultiplier0 * counter[0];
    const std::uint64_t product1 = kMultiplier1 * counter[2];
    counter = {
        high_word(product1) ^ counter[1] ^ key0,
        low_word(product1),
        high_word(product0) ^ counter[3] ^ key1,
        low_word(product0)};
    key0 += kWeyl0;
    key1 += kWeyl1;
  }
  return counter;
}

/// The allowed ratios of width to height, as torchvision's tuple of Python floats.
constexpr double kRatioMin = 3.0 / 4.0;
constexpr double kRatioMax = 4.0 / 3.0;

/// The crop if no try fits.
Crop fallback_crop(ImageSize image) {
  const double ratio = static_cast<double>(image.width) / static_cast<double>(image.height);
  Crop crop{.row = 0, .column = 0, .height = image.height, .width = image.width};
  if (ratio < kRatioMin) {
    crop.height = round_half_even(static_cast<double>(image.width) / kRatioMin);
  } else if (ratio > kRatioMax) {
    crop.width = round_half_even(static_cast<double>(image.height) * kRatioMax);
  }
  crop.row = (image.height - crop.height) / 2;
  crop.column = (image.width - crop.width) / 2;
  return crop;
}

}  // namespace

std::uint32_t KeyedDraws::next() {
  const std::uint32_t at = drawn_++ % 4;
  if (at == 0) {
    const auto sample = static_cast<std::uint64_t>(key_.sample);
    const Words words = philox(
        {drawn_ / 4, static_cast<std::uint32_t>(key_.epoch), low_word(sample), high_word(sample)},
        key_.seed);
    std::ranges::copy(words, block_.begin());
  }
  return block_[at];
}

std::int64_t KeyedDraws::below(std::int64_t n) {
  DDPRUN_CHECK(n >= 1 && n <= UINT32_MAX);
  // The upper half of the product is uniform over 0..n-1, up to n / 2^32.
  return high_word(static_cast<std::uint64_t>(n) * next());
}

float KeyedDraws::uniform(float low, float high) {
  constexpr float kStep = 1.0F / (1U << 24U);  // float's resolution in 0..1
  return low + (high - low) * (static_cast<float>(next() >> 8U) * kStep);
}

float KeyedDraws::log_uniform(float low, float high) {
  return std::exp(uniform(std::log(low), std::log(high)));
}

std::optional<Crop> draw_crop(
    Draws& draws, ImageSize image, std::int64_t side, std::int64_t padding) {
  const std::int64_t rows = image.height + 2 * padding - side;
  const std::int64_t columns = image.width + 2 * padding - side;
  if (rows < 0 || columns < 0) return std::nullopt;
  Crop crop{.row = -padding, .column = -padding, .height = side, .width = side};
  if (rows == 0 && columns == 0) return crop;
  crop.row += draws.below(rows + 1);
  crop.column += draws.below(columns + 1);
  return crop;
}

Crop draw_resized_crop(Draws& draws, ImageSize image) {
  constexpr float kScaleMin = 0.08F;
  constexpr float kScaleMax = 1.0F;
  constexpr int kTries = 10;
  const auto area = static_cast<double>(image.height * image.width);
  for (int i = 0; i < kTries; ++i) {
    const double target = area * static_cast<double>(draws.uniform(kScaleMin, kScaleMax));
    const auto ratio = static_cast<double>(
        draws.log_uniform(static_cast<float>(kRatioMin), static_cast<float>(kRatioMax)));
    Crop crop;
    crop.width = round_half_even(std::sqrt(target * ratio));
    crop.height = round_half_even(std::sqrt(target / ratio));
    const bool fits = crop.width > 0 && crop.width <= image.width && crop.height > 0 &&
                      crop.height <= image.height;
    if (!fits) continue;
    crop.row = draws.below(image.height - crop.height + 1);
    crop.column = draws.below(image.width - crop.width + 1);
    return crop;
  }
  return fallback_crop(image);
}

bool draw_flip(Draws& draws) {
  return draws.uniform(0, 1) < 0.5F;
}

ImageSize resized(ImageSize image, std::int64_t side) {
  // Python's int(side * long / short): the product is exact, the quotient a double.
  const auto scaled = [side](std::int64_t longer, std::int64_t shorter) {
    return static_cast<std::int64_t>(
        static_cast<double>(side * longer) / static_cast<double>(shorter));
  };
  if (image.width <= image.height) {
    return {.height = scaled(image.height, image.width), .width = side};
  }
  return {.height = side, .width = scaled(image.width, image.height)};
}

Crop centre_crop(ImageSize image, std::int64_t side) {
  // Smaller images are padded first: the smaller half in front, the larger one after.
  const auto offset = [side](std::int64_t length) {
    return length < side ? -((side - length) / 2)
                         : round_half_even(static_cast<double>(length - side) / 2);
  };
  return {
      .row = offset(image.height), .column = offset(image.width), .height = side, .width = side};
}

}  // namespace ddprun
