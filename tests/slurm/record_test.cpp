#include "slurm/core/record.hpp"

#include <gtest/gtest.h>

namespace ddprun {
namespace {

bool is_down(std::string_view state) {
  const auto down = is_node_down(
      std::string("NodeName=node0 CPUAlloc=1 ") + std::string(state) + " ThreadsPerCore=1");
  EXPECT_TRUE(down);
  return down && *down;
}

TEST(Record, ANodeIsDownOnceSlurmHasGivenItUp) {
  EXPECT_TRUE(is_down("State=DOWN+NOT_RESPONDING"));
  EXPECT_TRUE(is_down("State=DOWN*"));
  EXPECT_TRUE(is_down("State=DOWN"));
  EXPECT_FALSE(is_down("State=ALLOCATED*"));
  EXPECT_FALSE(is_down("State=MIXED+NOT_RESPONDING"));
  EXPECT_FALSE(is_down("State=POWERED_DOWN"));
}

TEST(Record, AnAnswerWithoutAStateIsRefused) {
  EXPECT_FALSE(is_node_down("Node node0 not found"));
  EXPECT_FALSE(is_node_down("NextState=DOWN"));
}

TEST(Record, AFieldEndsWithTheNextBlank) {
  EXPECT_EQ(field_of("A=1 JobState=RUNNING\nB=x y", "JobState"), "RUNNING");
  EXPECT_EQ(field_of("A=1 B=", "B"), "");
  EXPECT_EQ(field_of("A=1", "C"), std::nullopt);
}

}  // namespace
}  // namespace ddprun
