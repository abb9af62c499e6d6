#include "trainer/core/metrics.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <limits>

namespace ddprun {
namespace {

TEST(MetricSums, WeighBatchesByTheirSamples) {
  MetricSums sums;
  sums.add(2.0, 3, 4);
  sums.add(1.0, 1, 1);
  EXPECT_EQ(sums.mean_loss(), 1.8);
  EXPECT_EQ(sums.accuracy_percent(), 80);
}

TEST(MetricSums, AddUpOverRanks) {
  MetricSums sums{.loss = 1, .correct = 2, .samples = 3};
  sums.add({.loss = 10, .correct = 20, .samples = 30});
  EXPECT_EQ(sums, (MetricSums{.loss = 11, .correct = 22, .samples = 33}));
}

TEST(FinalLine, HasTheFieldsThatScriptsRead) {
  const MetricSums test{.loss = 5, .correct = 9, .samples = 10};
  EXPECT_EQ(
      final_line({.epoch = 2, .step = 200}, test, "ab12"),
      "final epoch=2 step=200 loss=0.500000 accuracy=90.0000 weights_sha256=ab12");
}

TEST(StepRecord, KeepsEveryBitOfTheLoss) {
  EXPECT_EQ(
      step_record({.epoch = 0, .step = 7}, 2.2802155017852783, 1.5),
      "{\"event\":\"step\",\"time_s\":1.5,\"epoch\":0,\"step\":7,\"loss\":2.2802155017852783}\n");
}

TEST(StepRecord, WritesALossThatIsNoNumberAsNull) {
  EXPECT_EQ(
      step_record({.epoch = 0, .step = 7}, std::numeric_limits<double>::quiet_NaN(), 1.5),
      "{\"event\":\"step\",\"time_s\":1.5,\"epoch\":0,\"step\":7,\"loss\":null}\n");
}

TEST(SampleRecord, SaysWhoSawWhichSamplesWhen) {
  WorkerPlace place;
  place.rank = 2;
  place.world = 3;
  place.term = 4;
  place.round = 5;
  constexpr std::array<std::int64_t, 2> kSamples{59'999, 0};
  EXPECT_EQ(
      sample_record({.epoch = 1, .step = 7}, place, kSamples),
      "{\"term\":4,\"round\":5,\"world\":3,\"rank\":2,\"epoch\":1,\"step\":7,"
      "\"samples\":[59999,0]}\n");
}

}  // namespace
}  // namespace ddprun
