#include "trainer/core/burn_in.hpp"

#include <gtest/gtest.h>

namespace ddprun {
namespace {

constexpr std::int64_t kGiB = std::int64_t{1} << 30;

TEST(BurnInLine, LeavesOutWhatIsNotKnown) {
  EXPECT_EQ(
      burn_in_line(
          {.iteration = 10,
           .loss = 2.5,
           .samples_per_s = 100.25,
           .elapsed_s = 1,
           .remaining_s = 2}),
      "burn-in iteration=10 loss=2.500000 samples_per_s=100.2 elapsed_s=1.0 remaining_s=2.0");
}

TEST(BurnInLine, TellsTokensMemoryAndHowTheGpuStands) {
  BurnInMoment moment = {.iteration = 20, .loss = 0.125, .samples_per_s = 64};
  moment.tokens_per_s = 4160;
  moment.remaining_s = 14'399.96;
  moment.peak_rss_bytes = 2 * kGiB + 1;
  moment.gpu = GpuFigures{
      .allocated_bytes = kGiB,
      .reserved_bytes = 3 * kGiB,
      .max_allocated_bytes = 2 * kGiB,
      .utilisation_percent = 97,
      .memory_utilisation_percent = 31,
      .temp_c = 41,
      .power_w = 123.45};
  EXPECT_EQ(
      burn_in_line(moment),
      "burn-in iteration=20 loss=0.125000 samples_per_s=64.0 tokens_per_s=4160.0 elapsed_s=0.0 "
      "remaining_s=14400.0 peak_rss_mib=2048 allocated_mib=1024 reserved_mib=3072 "
      "max_allocated_mib=2048 gpu_percent=97.0 gpu_memory_percent=31.0 temp_c=41.0 power_w=123.5");
}

TEST(BurnInLine, IsThereEveryTenIterationsAndABarrierEveryHundred) {
  EXPECT_FALSE(is_burn_in_told(1));
  EXPECT_TRUE(is_burn_in_told(10));
  EXPECT_FALSE(is_burn_in_told(11));
  EXPECT_FALSE(is_burn_in_barrier(10));
  EXPECT_TRUE(is_burn_in_barrier(200));
}

}  // namespace
}  // namespace ddprun
