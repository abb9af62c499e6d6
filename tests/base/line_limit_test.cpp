#include "base/line_limit.hpp"

#include <gtest/gtest.h>

#include <chrono>

namespace ddprun {
namespace {

TEST(LineLimit, LeavesOutWhatComesTooOftenAndCountsIt) {
  LineLimit lines;
  TimePoint now = TimePoint() + std::chrono::hours(24);
  for (int line = 0; line < 20; ++line) {
    EXPECT_EQ(lines.take(now), 0U);
  }
  for (int line = 0; line < 1'000; ++line) {
    EXPECT_FALSE(lines.take(now));
  }
  now += std::chrono::milliseconds(1'500);
  EXPECT_EQ(lines.take(now), 1'000U);
  EXPECT_FALSE(lines.take(now));
  now += std::chrono::milliseconds(500);
  EXPECT_EQ(lines.take(now), 1U);
  now += std::chrono::hours(1);
  for (int line = 0; line < 20; ++line) {
    EXPECT_EQ(lines.take(now), 0U);
  }
  EXPECT_FALSE(lines.take(now));
}

}  // namespace
}  // namespace ddprun
