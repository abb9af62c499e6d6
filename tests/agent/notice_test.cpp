#include "agent/core/notice.hpp"

#include <gtest/gtest.h>

#include <csignal>

namespace ddprun {
namespace {

using namespace std::chrono_literals;

constexpr double kNow = 1'000'000;

TEST(Notice, HasTheUsersGraceForADeadline) {
  NoticePlan plan;
  plan.grace = 10s;
  plan.kill_wait = 30s;
  EXPECT_EQ(deadline_after(SIGTERM, kNow, plan), kNow + 10);
  EXPECT_EQ(deadline_after(SIGUSR1, kNow, plan), kNow + 10);
}

TEST(Notice, HasWhatSlurmLeavesAtLeast) {
  NoticePlan plan;
  EXPECT_EQ(deadline_after(SIGTERM, kNow, plan), std::nullopt);
  plan.kill_wait = 30s;
  plan.job_end = 1'000'060;
  EXPECT_EQ(deadline_after(SIGTERM, kNow, plan), kNow + 30);
  EXPECT_EQ(deadline_after(SIGUSR1, kNow, plan), kNow + 60);
  plan.job_end = 999'990;  // its time is over
  EXPECT_EQ(deadline_after(SIGUSR1, kNow, plan), kNow);
}

TEST(Notice, HasNoDeadlineAfterTermIfSlurmsKillWaitIsUnknown) {
  NoticePlan plan;  // as in a container without slurm.conf
  plan.job_end = 1'086'400;
  EXPECT_EQ(deadline_after(SIGTERM, kNow, plan), std::nullopt);
  EXPECT_EQ(deadline_after(SIGUSR1, kNow, plan), 1'086'400);
}

TEST(Notice, IsALineOfJson) {
  NoticePlan plan;
  EXPECT_EQ(
      notice_json(SIGUSR1, kNow, plan),
      "{\"signal\":\"SIGUSR1\",\"time_s\":1000000.000,\"deadline_s\":null}\n");
  plan.grace = 2500ms;
  EXPECT_EQ(
      notice_json(SIGTERM, kNow, plan),
      "{\"signal\":\"SIGTERM\",\"time_s\":1000000.000,\"deadline_s\":1000002.500}\n");
}

}  // namespace
}  // namespace ddprun
