#include "agent/core/step_meter.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

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
  return slot;
}

TEST(StepMeter, LeavesOutWorkersThatHaveMadeNoStep) {
  StepMeter meter;
  EXPECT_THAT(meter.read(std::vector{slot(0, 0), slot(0, 0)}, 50 * kSecond), IsEmpty());
  const auto steps = meter.read(std::vector{slot(0, 0), slot(3, 49 * kSecond)}, 50 * kSecond);
  ASSERT_THAT(steps, SizeIs(1));
  EXPECT_EQ(steps[0].local_rank, 1);
  EXPECT_EQ(steps[0].step, 3);
  EXPECT_EQ(steps[0].age, 1s);
  EXPECT_EQ(steps[0].step_time, 0s);
}

TEST(StepMeter, MeasuresAStepFromTheOneASecondBefore) {
  StepMeter meter;
  const auto step_time = [&meter](std::int64_t steps, std::int64_t stepped_at) {
    return meter.read(std::vector{slot(steps, stepped_at)}, stepped_at)[0].step_time;
  };
  EXPECT_EQ(step_time(10, 5 * kSecond), 0s);
  EXPECT_EQ(step_time(12, 5 * kSecond + kSecond / 2), 250ms);  // the first one, as soon as known
  EXPECT_EQ(step_time(20, 6 * kSecond), 100ms);
  EXPECT_EQ(step_time(21, 6 * kSecond + kSecond / 2), 100ms);
  EXPECT_EQ(step_time(25, 7 * kSecond), 200ms);
  EXPECT_EQ(step_time(26, 17 * kSecond), 10s);
  EXPECT_EQ(step_time(26, 17 * kSecond), 10s);  // nothing new
}

TEST(StepMeter, TakesTheNumberThatTheScriptTells) {
  StepMeter meter;
  contract::StepSlot told = slot(3, 5 * kSecond);
  told.reported = 1 + 1'000;
  EXPECT_EQ(meter.read(std::vector{told}, 5 * kSecond)[0].step, 1'000);
  told.reported = 1 + 1'010;
  told.stepped_at = 7 * kSecond;
  EXPECT_EQ(meter.read(std::vector{told}, 7 * kSecond)[0].step_time, 200ms);
  told.reported = 1 + 500;  // it began anew
  EXPECT_EQ(meter.read(std::vector{told}, 7 * kSecond)[0].step, 500);
}

TEST(StepMeter, TellsOfAPauseUntilItIsOver) {
  StepMeter meter;
  contract::StepSlot busy{};
  busy.busy_until = 60 * kSecond;
  std::strcpy(busy.busy_with, "evaluating");
  EXPECT_EQ(meter.read(std::vector{busy}, 59 * kSecond)[0].busy_with, "evaluating");
  EXPECT_THAT(meter.read(std::vector{busy}, 60 * kSecond), IsEmpty());
}

TEST(StepMeter, BelievesNothingThatCannotBe) {
  StepMeter meter;
  contract::StepSlot wild{};
  std::memset(&wild, 0x7F, sizeof(wild));
  const auto high = meter.read(std::vector{wild}, 50 * kSecond);
  ASSERT_THAT(high, SizeIs(1));
  EXPECT_EQ(high[0].age, 0s);
  EXPECT_EQ(high[0].step, 1'000'000'000'000'000);
  EXPECT_EQ(high[0].busy_with.size(), sizeof(wild.busy_with));
  std::memset(&wild, 0x80, sizeof(wild));
  EXPECT_THAT(meter.read(std::vector{wild}, 50 * kSecond), IsEmpty());
}

}  // namespace
}  // namespace ddprun
