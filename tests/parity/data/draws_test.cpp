// What torchvision 0.26.0 draws and splits for the same seeds: numbers recorded there, not computed
// here.

#include "trainer/core/augment.hpp"
#include "trainer/core/split.hpp"
#include "trainer/data/torch_draws.hpp"
#include "trainer/data/transform.hpp"
#include "trainer/sampler.hpp"

#include <ATen/CPUGeneratorImpl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <array>
#include <vector>

namespace ddprun {

// NOLINTNEXTLINE(readability-identifier-naming): GoogleTest's name
void PrintTo(const Crop& crop, std::ostream* out) {
  *out << crop.row << "," << crop.column << " " << crop.height << "x" << crop.width;
}

namespace {

using ::testing::ElementsAre;
using Samples = std::vector<std::int64_t>;

TorchDraws seeded(std::uint64_t seed) {
  return TorchDraws(at::detail::createCPUGenerator(seed));
}

Samples first(const Samples& samples, std::size_t n) {
  return {samples.begin(), samples.begin() + static_cast<std::ptrdiff_t>(n)};
}

TEST(TorchDraws, CutCifarAsTorchvision) {
  struct Look {
    std::int64_t row;  // of the padded image
    std::int64_t column;
    bool is_flipped;
  };
  const std::vector<Look> expected = {
      {8, 0, true}, {6, 7, false}, {7, 1, true}, {0, 8, true}, {6, 3, true}, {2, 0, false}};
  TorchDraws draws = seeded(0);
  for (const Look& look : expected) {
    const auto crop = draw_crop(draws, {.height = 32, .width = 32}, 32, 4);
    ASSERT_TRUE(crop);
    EXPECT_EQ(*crop, (Crop{look.row - 4, look.column - 4, 32, 32}));
    EXPECT_EQ(draw_flip(draws), look.is_flipped);
  }
}

TEST(TorchDraws, CutAndResizeAsTorchvision) {
  struct Look {
    Crop crop;
    bool is_flipped;
  };
  const std::vector<Look> expected = {
      {{17, 80, 294, 343}, true}, {{11, 116, 354, 352}, false}, {{10, 21, 282, 267}, true}};
  TorchDraws draws = seeded(0);
  for (const Look& look : expected) {
    EXPECT_EQ(draw_resized_crop(draws, {.height = 375, .width = 500}), look.crop);
    EXPECT_EQ(draw_flip(draws), look.is_flipped);
  }
}

TEST(RandomSplit, IsPythons) {
  const auto parts =
      random_split(random_order(50'000, 42), std::array<std::int64_t, 2>{45'000, 5'000});
  ASSERT_EQ(parts.size(), 2U);
  EXPECT_THAT(first(parts[0], 5), ElementsAre(37542, 44491, 216, 43688, 41558));
  EXPECT_THAT(first(parts[1], 5), ElementsAre(17408, 40845, 3378, 22188, 44921));
}

TEST(RandomSplit, TakesFractionsAsPython) {
  const auto sizes = split_sizes(10, std::array{.7, .3});
  const auto parts = random_split(random_order(10, 0), sizes);
  EXPECT_THAT(parts[0], ElementsAre(4, 1, 7, 5, 3, 9, 0));
  EXPECT_THAT(parts[1], ElementsAre(8, 6, 2));
}

TEST(Transform, HasTheBitsOfTorchsDivisions) {
  Image image{.size = {.height = 16, .width = 16}, .channels = 1, .pixels = {}};
  const torch::Tensor bytes = torch::arange(256, torch::kUInt8);
  const auto* const byte = bytes.const_data_ptr<std::uint8_t>();
  image.pixels.assign(byte, byte + 256);
  TransformPlan plan = *transform_plan("mnist");
  plan.side = 16;
  std::vector<float> floats(256);
  KeyedDraws draws({});
  ASSERT_TRUE(Transform(plan).write(image, draws, floats));
  const torch::Tensor expected = bytes.to(torch::kFloat32).div_(255).sub_(0.1307).div_(0.3081);
  EXPECT_TRUE(torch::equal(torch::tensor(floats), expected));
}

}  // namespace
}  // namespace ddprun
