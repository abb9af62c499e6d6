#include "trainer/core/epoch_plan.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <set>

namespace ddprun {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
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

TEST(SamplesOfRank, ResumesWhereTheSameWorldStopped) {
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
  // Four ranks have seen 8 of 20; three continue.
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

/// (consumed, batches, world of the last batch) of an epoch.
using Reached = std::set<std::array<std::int64_t, 3>>;

constexpr std::int64_t kSamplesMax = 6;
constexpr std::int64_t kRanksMax = 4;

/// All possible courses of an epoch: before each batch, world size and batch size may change.
void add_reached(
    std::int64_t samples, Tail tail, std::int64_t consumed, std::int64_t batches, Reached& to) {
  for (int world = 1; world <= kRanksMax; ++world) {
    const std::int64_t mine =
        std::ssize(samples_of_rank(count_up(samples), {.rank = 0, .world = world}, tail, consumed));
    for (std::int64_t batch = 1; batch <= mine; ++batch) {
      const std::int64_t next = consumed + batch * world;
      if (to.insert({next, batches + 1, world}).second) {
        add_reached(samples, tail, next, batches + 1, to);
      }
    }
  }
}

TEST(CheckReachable, AcceptsWhatAnEpochCanComeToAndNothingElse) {
  for (const Tail tail : {Tail::kPad, Tail::kDrop}) {
    for (std::int64_t samples = 1; samples <= kSamplesMax; ++samples) {
      Reached reached;
      add_reached(samples, tail, 0, 0, reached);
      for (std::int64_t consumed = 0; consumed <= samples + kRanksMax; ++consumed) {
        for (std::int64_t batches = 0; batches <= samples + 1; ++batches) {
          bool by_any = consumed == 0 && batches == 0;
          for (std::int64_t world = 1; world <= kRanksMax; ++world) {
            SCOPED_TRACE(
                testing::Message() << consumed << " of " << samples << " after " << batches
                                   << " batches, the last at " << world);
            const EpochReached claimed = {
                .consumed = consumed, .batches = batches, .last_world = world};
            const bool is_reached =
                reached.contains({consumed, batches, world}) || (consumed == 0 && batches == 0);
            EXPECT_EQ(check_reachable(claimed, samples, tail).has_value(), is_reached);
            by_any = by_any || is_reached;
          }
          if (!by_any) continue;
          EXPECT_TRUE(check_reachable(
              {.consumed = consumed, .batches = batches, .last_world = {}}, samples, tail));
        }
      }
    }
  }
}

TEST(CheckReachable, SaysWhatIsImpossibleAndWhatToDo) {
  const auto refusal = [](const EpochReached& reached) {
    const auto checked = check_reachable(reached, 640, Tail::kPad);
    return checked ? "accepted" : checked.error().detail;
  };
  EXPECT_EQ(
      refusal({.consumed = 700, .batches = 20, .last_world = 2}),
      "'samples_consumed' is 700 after 20 batches, which is impossible with 640 training samples: "
      "the "
      "epoch ends at 641; give the data that it was saved with, or another --snapshot-dir to start "
      "over");
  EXPECT_THAT(
      refusal({.consumed = 16, .batches = 16, .last_world = 2}),
      HasSubstr("with 2 ranks there are at least 17"));
  EXPECT_THAT(
      refusal({.consumed = 15, .batches = 1, .last_world = 2}),
      HasSubstr("one batch of 2 ranks is a multiple of 2"));
  EXPECT_THAT(
      refusal({.consumed = 641, .batches = 641, .last_world = {}}),
      HasSubstr("the epoch has at most 640 batches"));
}

}  // namespace
}  // namespace ddprun
