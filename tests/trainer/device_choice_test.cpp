#include "trainer/core/device_choice.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ddprun {
namespace {

using ::testing::HasSubstr;

TEST(ChooseGpu, TakesTheOneOfTheRanksNumber) {
  EXPECT_EQ(*choose_gpu({.local_rank = 0, .local_world = 8}, 8), 0);
  EXPECT_EQ(*choose_gpu({.local_rank = 7, .local_world = 8}, 8), 7);
  EXPECT_EQ(*choose_gpu({.local_rank = 0, .local_world = 1}, 1), 0);
}

TEST(ChooseGpu, TakesTheOnlyOneThatALauncherShows) {
  EXPECT_EQ(*choose_gpu({.local_rank = 3, .local_world = 4, .sees_own = true}, 1), 0);
}

TEST(ChooseGpu, SharesNoneAmongRanks) {
  const auto surplus = choose_gpu({.local_rank = 2, .local_world = 3}, 2);
  ASSERT_FALSE(surplus);
  EXPECT_THAT(
      surplus.error().detail, HasSubstr("LOCAL_RANK is 2 of 3, but this process sees 2 GPUs"));
  // All ranks get the error, not only those without a GPU.
  EXPECT_FALSE(choose_gpu({.local_rank = 0, .local_world = 3}, 2));
  EXPECT_FALSE(choose_gpu({.local_rank = 0, .local_world = 2}, 1));
}

}  // namespace
}  // namespace ddprun
