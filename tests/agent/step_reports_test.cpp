#include "agent/core/step_reports.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <string>

namespace ddprun {
namespace {

using namespace std::chrono_literals;
using testing::IsEmpty;
using testing::SizeIs;

constexpr std::int64_t kSecond = 1'000'000'000;

contract::StepSlot slot(std::int64_t steps, std::int64_t stepped_at) {
  contract::StepSlot slot{};
  slot.steps = steps;
  slot.stepped_at = stepped_at;
  slot.step_time = 80'000'000;
  return slot;
}

TEST(StepReports, LeaveOutWorkersThatHaveMadeNoStep) {
  EXPECT_THAT(step_reports(std::vector{slot(0, 0), slot(0, 0)}, 50 * kSecond), IsEmpty());
  const auto reports = step_reports(std::vector{slot(0, 0), slot(3, 49 * kSecond)}, 50 * kSecond);
  ASSERT_THAT(reports, SizeIs(1));
  EXPECT_EQ(reports[0].local_rank, 1);
  EXPECT_EQ(reports[0].step, 3);
  EXPECT_EQ(reports[0].age, 1s);
  EXPECT_EQ(reports[0].step_time, 80ms);
}

TEST(StepReports, HaveTheNumberThatTheScriptTells) {
  contract::StepSlot told = slot(3, 5 * kSecond);
  told.reported = 1 + 1'000;
  EXPECT_EQ(step_reports(std::vector{told}, 5 * kSecond)[0].step, 1'000);
}

TEST(StepReports, HaveAPauseUntilItIsOver) {
  contract::StepSlot busy{};
  busy.busy_until = 60 * kSecond;
  std::strcpy(busy.busy_with, "evaluating");
  EXPECT_EQ(step_reports(std::vector{busy}, 59 * kSecond)[0].busy_with, "evaluating");
  EXPECT_THAT(step_reports(std::vector{busy}, 60 * kSecond), IsEmpty());
}

TEST(StepReports, HaveNothingThatCannotBe) {
  contract::StepSlot wild{};
  std::memset(&wild, 0x7F, sizeof(wild));
  const auto high = step_reports(std::vector{wild}, 50 * kSecond);
  ASSERT_THAT(high, SizeIs(1));
  EXPECT_EQ(high[0].age, 0s);
  EXPECT_EQ(high[0].step, 1'000'000'000'000'000);
  EXPECT_EQ(high[0].step_time, 24h * 365);
  EXPECT_EQ(high[0].busy_with, std::string(sizeof(wild.busy_with), '\x7F'));
  std::memset(&wild, 0x80, sizeof(wild));
  EXPECT_THAT(step_reports(std::vector{wild}, 50 * kSecond), IsEmpty());
}

}  // namespace
}  // namespace ddprun
