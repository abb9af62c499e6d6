#include "trainer/core/split.hpp"

#include "trainer/data/allowed_cpus.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstdlib>
#include <numeric>
#include <optional>

#include <sched.h>

namespace ddprun {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::vector<std::int64_t> count_up(std::int64_t n) {
  std::vector<std::int64_t> order(static_cast<std::size_t>(n));
  std::iota(order.begin(), order.end(), 0);
  return order;
}

TEST(SplitSizes, GiveWhatIsLeftOverFromTheFirst) {
  EXPECT_THAT(split_sizes(10, std::array{.7, .3}), ElementsAre(7, 3));
  EXPECT_THAT(split_sizes(11, std::array{1. / 3, 1. / 3, 1. / 3}), ElementsAre(4, 4, 3));
  EXPECT_THAT(split_sizes(5, std::array{.5, .5}), ElementsAre(3, 2));
}

TEST(RandomSplit, TakesPartsOfTheOrderOneAfterAnother) {
  const std::array<std::int64_t, 5> order{3, 1, 4, 0, 2};
  const auto parts = random_split(order, std::array<std::int64_t, 3>{2, 0, 3});
  ASSERT_EQ(parts.size(), 3U);
  EXPECT_THAT(parts[0], ElementsAre(3, 1));
  EXPECT_THAT(parts[1], IsEmpty());
  EXPECT_THAT(parts[2], ElementsAre(4, 0, 2));
}

TEST(Pick, TurnsPositionsOfAPartIntoSamples) {
  const std::array<std::int64_t, 3> part{7, 9, 4};
  EXPECT_THAT(pick(part, std::array<std::int64_t, 4>{2, 0, 0, 1}), ElementsAre(4, 7, 7, 9));
}

TEST(StratifiedSplit, HoldsOutTheFirstOfEachClassInTheOrder) {
  const std::array<std::int64_t, 6> order{5, 4, 3, 2, 1, 0};
  const auto split = stratified_split(order, 2, 1. / 3, [](std::int64_t s) { return s % 2; });
  EXPECT_THAT(split.held_out, ElementsAre(5, 4));
  EXPECT_THAT(split.train, ElementsAre(3, 2, 1, 0));
}

TEST(StratifiedSplit, GivesEveryClassItsShareToWithinOne) {
  // Classes of 1, 2, … 40 samples.
  std::vector<std::int64_t> labels;
  for (std::int64_t label = 0; label < 40; ++label) {
    labels.insert(labels.end(), static_cast<std::size_t>(label + 1), label);
  }
  const auto label_of = [&](std::int64_t s) { return labels[static_cast<std::size_t>(s)]; };
  const auto order = count_up(std::ssize(labels));
  for (const double fraction : {0.0, 0.1, 0.25, 0.5, 0.99, 1.0}) {
    const auto split = stratified_split(order, 40, fraction, label_of);
    std::vector<double> counts(40);
    for (const std::int64_t sample : split.held_out) {
      ++counts[static_cast<std::size_t>(label_of(sample))];
    }
    for (std::size_t label = 0; label < counts.size(); ++label) {
      EXPECT_LT(std::abs(counts[label] - fraction * static_cast<double>(label + 1)), 1 + 1e-9);
    }
    EXPECT_EQ(std::ssize(split.held_out), std::llround(820 * fraction));
    EXPECT_EQ(split.held_out.size() + split.train.size(), order.size());
  }
}

TEST(AllowedCpus, OfAProcessThatMayUseOneCpuAreOne) {
  cpu_set_t before;
  ASSERT_EQ(::sched_getaffinity(0, sizeof before, &before), 0);
  int cpu = 0;
  while (!CPU_ISSET(cpu, &before)) {
    ++cpu;
  }
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(cpu, &one);
  ASSERT_EQ(::sched_setaffinity(0, sizeof one, &one), 0);
  const int allowed = allowed_cpus();
  ASSERT_EQ(::sched_setaffinity(0, sizeof before, &before), 0);
  EXPECT_EQ(allowed, 1);
  EXPECT_EQ(allowed_cpus(), CPU_COUNT(&before));
}

}  // namespace
}  // namespace ddprun
