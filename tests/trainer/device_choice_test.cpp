#include "trainer/core/device_choice.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ddprun {
namespace {

using ::testing::HasSubstr;

TEST(ChooseGpu, TakesTheOneOfTheRanksNumber) {
  EXPECT_EQ(*choose_gpu(0, 8), 0);
  EXPECT_EQ(*choose_gpu(7, 8), 7);
}

TEST(ChooseGpu, TakesTheOnlyOneThatALauncherShows) {
  EXPECT_EQ(*choose_gpu(3, 1), 0);
}

TEST(ChooseGpu, SharesNoneAmongRanks) {
  const auto chosen = choose_gpu(2, 2);
  ASSERT_FALSE(chosen);
  EXPECT_THAT(chosen.error().detail, HasSubstr("LOCAL_RANK is 2, and this process sees 2 GPUs"));
}

}  // namespace
}  // namespace ddprun
