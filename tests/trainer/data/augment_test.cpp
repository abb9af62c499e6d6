#include "trainer/core/augment.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <deque>
#include <vector>

namespace ddprun {
namespace {

using ::testing::ElementsAre;

/// Returns the given numbers, and records the requests.
class ScriptedDraws final : public Draws {
 public:
  ScriptedDraws(std::deque<std::int64_t> whole, std::deque<float> parts)
      : whole_(std::move(whole)), parts_(std::move(parts)) {}

  std::int64_t below(std::int64_t n) override {
    asked.push_back(n);
    return take(whole_);
  }
  float uniform(float /*low*/, float /*high*/) override { return take(parts_); }
  float log_uniform(float /*low*/, float /*high*/) override { return take(parts_); }

  std::vector<std::int64_t> asked;

 private:
  template <class T>
  static T take(std::deque<T>& from) {
    EXPECT_FALSE(from.empty()) << "more numbers drawn than expected";
    if (from.empty()) return T{};
    const T value = from.front();
    from.pop_front();
    return value;
  }

  std::deque<std::int64_t> whole_;
  std::deque<float> parts_;
};

TEST(KeyedDraws, AreThePapersPhilox) {
  // Random123's known answers for a counter and a key of zeros: 6627e8d5 e169c58d bc57ac4c
  // 9b00dbd8. n = 2^32 - 1 gives each of these words minus one.
  KeyedDraws draws({.seed = 0, .epoch = 0, .sample = 0});
  EXPECT_EQ(draws.below(UINT32_MAX), 0x6627e8d4);
  EXPECT_EQ(draws.below(UINT32_MAX), 0xe169c58c);
  EXPECT_EQ(draws.below(UINT32_MAX), 0xbc57ac4b);
  EXPECT_EQ(draws.below(UINT32_MAX), 0x9b00dbd7);
}

std::vector<std::int64_t> drawn(KeyedDraws::Key key) {
  KeyedDraws draws(key);
  std::vector<std::int64_t> numbers;
  numbers.reserve(9);
  for (int i = 0; i < 9; ++i) {
    numbers.push_back(draws.below(1'000'000));
  }
  return numbers;
}

TEST(KeyedDraws, DependOnEveryPartOfTheKey) {
  const auto base = drawn({.seed = 1, .epoch = 2, .sample = 3});
  EXPECT_EQ(base, drawn({.seed = 1, .epoch = 2, .sample = 3}));
  EXPECT_NE(base, drawn({.seed = 0, .epoch = 2, .sample = 3}));
  EXPECT_NE(base, drawn({.seed = 1 + (1ULL << 32U), .epoch = 2, .sample = 3}));
  EXPECT_NE(base, drawn({.seed = 1, .epoch = 3, .sample = 3}));
  EXPECT_NE(base, drawn({.seed = 1, .epoch = 2, .sample = 4}));
  EXPECT_NE(base, drawn({.seed = 1, .epoch = 2, .sample = 3 + (1LL << 32U)}));
}

TEST(KeyedDraws, FillTheirRangeEvenly) {
  std::vector<int> counts(7);
  double sum = 0;
  constexpr int kDraws = 70'000;
  for (int sample = 0; sample < kDraws; ++sample) {
    KeyedDraws draws({.seed = 5, .epoch = 1, .sample = sample});
    ++counts.at(static_cast<std::size_t>(draws.below(7)));
    const float part = draws.uniform(2, 4);
    EXPECT_TRUE(part >= 2 && part < 4);
    sum += static_cast<double>(part);
  }
  for (const int count : counts) {
    EXPECT_NEAR(count, kDraws / 7.0, 400);  // four standard deviations
  }
  EXPECT_NEAR(sum / kDraws, 3, 0.01);
}

TEST(Flip, HappensToHalfOfTheSamples) {
  int flips = 0;
  constexpr int kSamples = 20'000;
  for (int sample = 0; sample < kSamples; ++sample) {
    KeyedDraws draws({.seed = 0, .epoch = 0, .sample = sample});
    flips += draw_flip(draws) ? 1 : 0;
  }
  EXPECT_NEAR(flips, kSamples / 2.0, 300);  // four standard deviations
}

TEST(DrawCrop, DrawsTheRowAndThenTheColumnOfThePaddedImage) {
  ScriptedDraws draws({8, 0}, {});
  EXPECT_EQ(draw_crop(draws, {.height = 32, .width = 32}, 32, 4), (Crop{4, -4, 32, 32}));
  EXPECT_THAT(draws.asked, ElementsAre(9, 9));
}

TEST(DrawCrop, DrawsNothingWhereOnePlaceFits) {
  ScriptedDraws draws({}, {});
  EXPECT_EQ(draw_crop(draws, {.height = 32, .width = 32}, 32, 0), (Crop{0, 0, 32, 32}));
}

TEST(DrawCrop, IsNoneWhereNoneFits) {
  ScriptedDraws draws({}, {});
  EXPECT_EQ(draw_crop(draws, {.height = 20, .width = 40}, 32, 4), std::nullopt);
}

TEST(DrawResizedCrop, TriesAgainWhenAPartDoesNotFit) {
  // All of the area at 4:3 is wider than a square; the second try is a quarter of it.
  ScriptedDraws draws({10, 20}, {1.0F, 1.3F, 0.25F, 1.0F});
  EXPECT_EQ(draw_resized_crop(draws, {.height = 100, .width = 100}), (Crop{10, 20, 50, 50}));
  EXPECT_THAT(draws.asked, ElementsAre(51, 51));
}

std::deque<float> ten_misfits() {
  std::deque<float> parts;
  for (int i = 0; i < 10; ++i) {
    parts.insert(parts.end(), {1.0F, 1.0F});
  }
  return parts;
}

TEST(DrawResizedCrop, TakesTheMiddleAfterTenTries) {
  ScriptedDraws wide({}, ten_misfits());
  EXPECT_EQ(draw_resized_crop(wide, {.height = 30, .width = 100}), (Crop{0, 30, 30, 40}));
  ScriptedDraws high({}, ten_misfits());
  EXPECT_EQ(draw_resized_crop(high, {.height = 100, .width = 30}), (Crop{30, 0, 40, 30}));
}

TEST(DrawResizedCrop, AlwaysLiesInTheImage) {
  for (int sample = 0; sample < 2'000; ++sample) {
    const ImageSize image{.height = 1 + sample % 61, .width = 1 + sample % 47};
    KeyedDraws draws({.seed = 9, .epoch = 0, .sample = sample});
    const Crop crop = draw_resized_crop(draws, image);
    EXPECT_TRUE(crop.row >= 0 && crop.column >= 0 && crop.height >= 1 && crop.width >= 1);
    EXPECT_LE(crop.row + crop.height, image.height);
    EXPECT_LE(crop.column + crop.width, image.width);
  }
}

TEST(Resized, CutsTheLongSideToWholePixels) {
  EXPECT_EQ(resized({.height = 375, .width = 500}, 256), (ImageSize{256, 341}));
  EXPECT_EQ(resized({.height = 500, .width = 375}, 256), (ImageSize{341, 256}));
  EXPECT_EQ(resized({.height = 64, .width = 64}, 256), (ImageSize{256, 256}));
}

TEST(CentreCrop, RoundsHalfAPixelToTheEvenOne) {
  EXPECT_EQ(centre_crop({.height = 256, .width = 341}, 224), (Crop{16, 58, 224, 224}));
  EXPECT_EQ(centre_crop({.height = 227, .width = 229}, 224), (Crop{2, 2, 224, 224}));
}

TEST(CentreCrop, ReachesBeyondASmallerImage) {
  EXPECT_EQ(centre_crop({.height = 10, .width = 13}, 20), (Crop{-5, -3, 20, 20}));
}

}  // namespace
}  // namespace ddprun
