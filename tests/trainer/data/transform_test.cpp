#include "trainer/data/transform.hpp"

#include "trainer/data/resample.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <string>
#include <vector>

namespace ddprun {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr TransformPlan kSmall{.channels = 1, .side = 4, .mean = {0.5F}, .deviation = {0.5F}};

/// Always returns the same number, so that a test decides what is drawn.
class FixedDraws final : public Draws {
 public:
  FixedDraws(std::int64_t whole, float part) : whole_(whole), part_(part) {}
  std::int64_t below(std::int64_t n) override { return std::min(whole_, n - 1); }
  float uniform(float /*low*/, float /*high*/) override { return part_; }
  float log_uniform(float /*low*/, float /*high*/) override { return 1; }

 private:
  std::int64_t whole_;
  float part_;
};

Image counting(std::int64_t side, std::int64_t channels) {
  Image image{.size = {.height = side, .width = side}, .channels = channels, .pixels = {}};
  image.pixels.resize(static_cast<std::size_t>(side * side * channels));
  std::iota(image.pixels.begin(), image.pixels.end(), std::uint8_t{0});
  return image;
}

std::vector<float> written(const TransformPlan& plan, const Image& image, Draws& draws) {
  std::vector<float> floats(static_cast<std::size_t>(plan.floats()));
  const auto done = Transform(plan).write(image, draws, floats);
  EXPECT_TRUE(done) << (done ? "" : done.error().detail);
  return floats;
}

std::string refusal_of(const TransformPlan& plan, const Image& image) {
  std::vector<float> floats(static_cast<std::size_t>(plan.floats()));
  FixedDraws draws(0, 0);
  const auto done = Transform(plan).write(image, draws, floats);
  return done ? "accepted" : done.error().detail;
}

TEST(Transform, DividesSubtractsAndDividesAgain) {
  FixedDraws draws(0, 1);
  const auto floats = written(kSmall, counting(4, 1), draws);
  EXPECT_EQ(floats[0], -1.0F);
  EXPECT_EQ(floats[15], (15.0F / 255.0F - 0.5F) / 0.5F);
}

TEST(Transform, MirrorsRows) {
  TransformPlan plan = kSmall;
  plan.flip = Flip::kHalf;
  plan.mean = {0};
  plan.deviation = {1.0F / 255.0F};
  FixedDraws flips(0, 0);
  FixedDraws leaves(0, 0.5F);
  std::vector<float> mirrored = written(plan, counting(4, 1), flips);
  const std::vector<float> straight = written(plan, counting(4, 1), leaves);
  EXPECT_NE(mirrored, straight);
  for (auto row = mirrored.begin(); row != mirrored.end(); row += 4) {
    std::reverse(row, row + 4);
  }
  EXPECT_EQ(mirrored, straight);
}

TEST(Transform, PadsWithBlackThatIsNormalisedToo) {
  TransformPlan plan = kSmall;
  plan.fit = Fit::kPaddedCrop;
  plan.padding = 4;
  FixedDraws corner(0, 1);  // the crop of the upper left corner is all padding
  EXPECT_THAT(written(plan, counting(4, 1), corner), Each(-1.0F));
  FixedDraws middle(4, 1);  // and this one none
  TransformPlan const exact = kSmall;
  EXPECT_EQ(written(plan, counting(4, 1), middle), written(exact, counting(4, 1), middle));
}

TEST(Transform, SpreadsGreyOverThreeChannels) {
  TransformPlan plan = kSmall;
  plan.channels = 3;
  plan.mean = {0, 0.5F, 0};
  plan.deviation = {1, 1, 0.5F};
  FixedDraws draws(0, 1);
  const auto floats = written(plan, counting(4, 1), draws);
  EXPECT_EQ(floats[15], 15.0F / 255.0F);
  EXPECT_EQ(floats[16 + 15], 15.0F / 255.0F - 0.5F);
  EXPECT_EQ(floats[32 + 15], 15.0F / 255.0F / 0.5F);
}

TEST(Transform, ReadsPlanesAndInterleavedPixelsAlike) {
  Image interleaved = counting(4, 3);
  Image planar = interleaved;
  planar.layout = Image::Layout::kPlanar;
  for (std::size_t at = 0; at < 16; ++at) {
    for (std::size_t c = 0; c < 3; ++c) {
      planar.pixels[c * 16 + at] = interleaved.pixels[at * 3 + c];
    }
  }
  for (const Fit fit : {Fit::kExact, Fit::kPaddedCrop, Fit::kResizedCrop}) {
    TransformPlan plan = kSmall;
    plan.fit = fit;
    plan.channels = 3;
    plan.mean = {0.1F, 0.2F, 0.3F};
    plan.deviation = {1, 2, 3};
    FixedDraws draws(0, 0.7F);
    EXPECT_EQ(written(plan, interleaved, draws), written(plan, planar, draws));
  }
}

TEST(Transform, RefusesAnImageOfAnotherSize) {
  EXPECT_THAT(refusal_of(kSmall, counting(5, 1)), HasSubstr("5 x 5 pixels, expected 4 x 4"));
  TransformPlan padded = kSmall;
  padded.fit = Fit::kPaddedCrop;
  padded.padding = 1;
  EXPECT_THAT(refusal_of(padded, counting(1, 1)), HasSubstr("at least 4 less 2"));
}

TEST(Transform, RefusesColoursWhereGreyIsExpected) {
  EXPECT_THAT(refusal_of(kSmall, counting(4, 3)), HasSubstr("coloured"));
}

TEST(TransformPlan, IsKnownByEveryNameThatIsListed) {
  for (const std::string& name : transform_presets()) {
    EXPECT_TRUE(transform_plan(name)) << name;
  }
  EXPECT_FALSE(transform_plan("imagenet"));
  EXPECT_THAT(transform_presets(), ::testing::SizeIs(10));
}

TEST(TransformPlan, KeepsTheRatioOfResizeAndCropForAnotherSide) {
  EXPECT_EQ(with_side(*transform_plan("imagenet-eval"), 112).resize, 128);
  EXPECT_EQ(with_side(*transform_plan("imagenet-train"), 128).side, 128);
}

TEST(AxisWeights, OfTheSameSizeTakeEachPixelAsItIs) {
  const std::vector<std::uint8_t> row = {0, 3, 250, 255, 7};
  std::vector<std::uint8_t> out(5);
  resample_row(row.data(), AxisWeights(5, 5, {.first = 0, .count = 5}), 1, out);
  EXPECT_EQ(out, row);
}

TEST(AxisWeights, ShrinkAndGrowAsPil) {
  // PIL 13: Image.fromarray(…).resize((n, 1), BILINEAR) of the bytes 0 40 80 120 160 200 240 255.
  const std::vector<std::uint8_t> row = {0, 40, 80, 120, 160, 200, 240, 255};
  std::vector<std::uint8_t> out(3);
  resample_row(row.data(), AxisWeights(8, 3, {.first = 0, .count = 3}), 1, out);
  EXPECT_THAT(out, ElementsAre(44, 140, 229));
  out.resize(11);
  resample_row(row.data(), AxisWeights(8, 11, {.first = 0, .count = 11}), 1, out);
  EXPECT_THAT(out, ElementsAre(0, 24, 53, 82, 111, 140, 169, 198, 227, 246, 255));
}

TEST(IsHeightFirst, WhenMoreThanTwiceAsManyRowsAsColumnsGo) {
  // Measured with Pillow 13.0.0.
  EXPECT_FALSE(is_height_first({40, 40}, {20, 30}));
  EXPECT_TRUE(is_height_first({41, 40}, {20, 30}));
  EXPECT_FALSE(is_height_first({120, 80}, {20, 30}));
  EXPECT_TRUE(is_height_first({121, 80}, {20, 30}));
  EXPECT_TRUE(is_height_first({21, 40}, {20, 60}));
  EXPECT_FALSE(is_height_first({20, 40}, {21, 60}));
}

TEST(AxisWeights, OfAWindowAreThoseOfTheWhole) {
  const AxisWeights whole(37, 101, {.first = 0, .count = 101});
  const AxisWeights part(37, 101, {.first = 40, .count = 20});
  for (std::int64_t at = 0; at < 20; ++at) {
    EXPECT_EQ(part.taps(at).first, whole.taps(40 + at).first);
    EXPECT_TRUE(std::ranges::equal(part.taps(at).weights, whole.taps(40 + at).weights));
  }
}

}  // namespace
}  // namespace ddprun
