#include "slurm/core/kill_wait.hpp"

#include <gtest/gtest.h>

namespace ddprun {
namespace {

using namespace std::chrono_literals;

TEST(KillWait, IsWhatTheConfigurationSaysOrSlurmsDefault) {
  EXPECT_EQ(kill_wait("ClusterName=c\nKillWait=5\nMessageTimeout=9\n"), 5s);
  EXPECT_EQ(kill_wait("  killwait = 120   # long\n"), 120s);
  EXPECT_EQ(kill_wait("#KillWait=5\n"), 30s);
  EXPECT_EQ(kill_wait(""), 30s);
}

TEST(KillWait, IsUnknownWhereItHasNoSense) {
  EXPECT_EQ(kill_wait("KillWait=soon\n"), std::nullopt);
  EXPECT_EQ(kill_wait("KillWait=-1\n"), std::nullopt);
}

}  // namespace
}  // namespace ddprun
