#include "trainer/core/epoch_plan.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

namespace ddprun {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::vector<std::int64_t> count_up(std::int64_t n) {
  std::vector<std::int64_t> order(static_cast<std::size_t>(n));
  std::iota(order.begin(), order.end(), 0);
  return order;
}

std::vector<std::int64_t> share(std::int64_t n, Share of, Tail tail = Tail::kPad) {
  return samples_of_rank(count_up(n), of, tail, 0);
}

TEST(SamplesOfRank, StridesByTheWorldAndPadsFromTheStart) {
  EXPECT_THAT(share(10, {.rank = 0, .world = 3}), ElementsAre(0, 3, 6, 9));
  EXPECT_THAT(share(10, {.rank = 1, .world = 3}), ElementsAre(1, 4, 7, 0));
  EXPECT_THAT(share(10, {.rank = 2, .world = 3}), ElementsAre(2, 5, 8, 1));
}

TEST(SamplesOfRank, DropsWhatIsLeftOver) {
  EXPECT_THAT(share(10, {.rank = 0, .world = 3}, Tail::kDrop), ElementsAre(0, 3, 6));
  EXPECT_THAT(share(10, {.rank = 2, .world = 3}, Tail::kDrop), ElementsAre(2, 5, 8));
  EXPECT_THAT(share(2, {.rank = 0, .world = 3}, Tail::kDrop), IsEmpty());
}

TEST(SamplesOfRank, RepeatsAShortListAsOftenAsTheWorldNeeds) {
  EXPECT_THAT(share(3, {.rank = 6, .world = 8}), ElementsAre(0));
  EXPECT_THAT(share(3, {.rank = 7, .world = 8}), ElementsAre(1));
}

TEST(SamplesOfRank, GoesOnWhereTheSameWorldStopped) {
  for (const std::int64_t n : {10, 11, 12, 64}) {
    for (int rank = 0; rank < 4; ++rank) {
      const Share of{.rank = rank, .world = 4};
      const auto whole = share(n, of);
      for (std::int64_t done = 0; done <= std::ssize(whole); ++done) {
        const std::vector<std::int64_t> rest(whole.begin() + done, whole.end());
        EXPECT_EQ(samples_of_rank(count_up(n), of, Tail::kPad, done * 4), rest);
      }
    }
  }
}

TEST(SamplesOfRank, GivesEverySampleLeftOnceToAnotherWorld) {
  // Four ranks have seen 8 of 20; three go on.
  std::vector<std::int64_t> seen;
  for (int rank = 0; rank < 3; ++rank) {
    const auto samples = samples_of_rank(count_up(20), {.rank = rank, .world = 3}, Tail::kPad, 8);
    seen.insert(seen.end(), samples.begin(), samples.end());
  }
  std::ranges::sort(seen);
  EXPECT_THAT(seen, ElementsAre(8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19));
}

TEST(StepsPerEpoch, CountTheLastBatchThatIsNotFull) {
  EXPECT_EQ(steps_per_epoch(6400, 64, 1), 100);
  EXPECT_EQ(steps_per_epoch(6400, 32, 2), 100);
  EXPECT_EQ(steps_per_epoch(101, 10, 2), 6);
  EXPECT_EQ(steps_per_epoch(1, 10, 4), 1);
}

}  // namespace
}  // namespace ddprun
