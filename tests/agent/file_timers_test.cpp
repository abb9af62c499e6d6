#include "agent/core/file_timers.hpp"

#include <gtest/gtest.h>

namespace ddprun {
namespace {

FileTimerRequest timer(int pid, const char* scope, double expires_s) {
  return {.pid = pid, .scope = scope, .expires_s = expires_s, .signal = 9};
}

TEST(FileTimers, ExpireInOrderOfTimeAndOnce) {
  FileTimers timers;
  timers.apply(timer(7, "b", 20));
  timers.apply(timer(8, "a", 10));
  timers.apply(timer(8, "c", 30));
  EXPECT_EQ(timers.next_s(), 10);
  const auto expired = timers.take_expired(20);
  ASSERT_EQ(expired.size(), 2U);
  EXPECT_EQ(expired[0].pid, 8);
  EXPECT_EQ(expired[1].pid, 7);
  EXPECT_TRUE(timers.take_expired(20).empty());
  EXPECT_EQ(timers.next_s(), 30);
}

TEST(FileTimers, AreReplacedByTheSameScopeAndReleasedByANegativeTime) {
  FileTimers timers;
  timers.apply(timer(7, "step", 10));
  timers.apply(timer(7, "step", 20));
  EXPECT_EQ(timers.next_s(), 20);
  timers.apply(timer(8, "step", -1));  // another worker, which has no timer
  timers.apply(timer(7, "step", -1));
  EXPECT_EQ(timers.next_s(), std::nullopt);
}

TEST(FileTimers, EndWithTheirProcess) {
  FileTimers timers;
  timers.apply(timer(7, "a", 10));
  timers.apply(timer(7, "b", 20));
  timers.apply(timer(8, "a", 30));
  timers.forget(7);
  EXPECT_EQ(timers.next_s(), 30);
}

}  // namespace
}  // namespace ddprun
