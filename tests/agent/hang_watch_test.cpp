#include "agent/core/hang_watch.hpp"

#include <gtest/gtest.h>

#include <limits>
#include <vector>

namespace ddprun {
namespace {

using namespace std::chrono_literals;
using Finding = HangWatch::Finding;

constexpr std::int64_t kSecond = 1'000'000'000;

contract::StepSlot slot(std::int64_t steps, std::int64_t at_s, std::int64_t slowest_s = 0) {
  contract::StepSlot slot{};
  slot.steps = steps;
  slot.stepped_at = at_s * kSecond;
  slot.slowest = slowest_s * kSecond;
  return slot;
}

class Watch : public testing::Test {
 protected:
  void begin(HangPlan plan) {
    watch_ = HangWatch(plan);
    watch_.begin_round(100 * kSecond);
  }
  Finding at(std::int64_t now_s, std::vector<contract::StepSlot> slots) {
    return watch_.look(slots, now_s * kSecond);
  }
  std::int64_t due_s() const { return watch_.due().value_or(-kSecond) / kSecond; }

  HangWatch watch_{HangPlan{}};
};

TEST_F(Watch, WaitsForTenTimesTheSlowestStepAndAtLeastAMinute) {
  begin({});
  EXPECT_EQ(at(110, {slot(5, 108, 2), slot(5, 109, 1)}), Finding::kNothing);
  EXPECT_EQ(due_s(), 169);
  EXPECT_EQ(at(110, {slot(5, 108, 2), slot(5, 109, 7)}), Finding::kNothing);
  EXPECT_EQ(due_s(), 179);
  EXPECT_EQ(at(179, {slot(5, 108, 2), slot(5, 109, 7)}), Finding::kSilent);
  EXPECT_EQ(watch_.silent_for(179 * kSecond), 70s);
  EXPECT_EQ(watch_.slowest(), 7s);
}

TEST_F(Watch, WaitsAsLongAsItIsTold) {
  begin({.limit = 3s});
  EXPECT_EQ(due_s(), 103);
  EXPECT_EQ(at(103, {slot(9, 102, 7)}), Finding::kNothing);
  EXPECT_EQ(due_s(), 105);
  EXPECT_EQ(at(105, {slot(9, 102, 7)}), Finding::kSilent);
}

TEST_F(Watch, ExpectsNothingBeforeThePaceIsKnownNorWithOff) {
  begin({.limit = 3s});
  EXPECT_EQ(at(900, {slot(0, 0), slot(1, 110)}), Finding::kNothing);
  EXPECT_EQ(due_s(), 903);
  begin({.is_watched = false});
  EXPECT_FALSE(watch_.due());
  EXPECT_EQ(at(900, {slot(9, 110)}), Finding::kNothing);
}

TEST_F(Watch, WaitsUntilAnAnnouncedPauseOfAnyWorkerIsOver) {
  begin({.limit = 3s});
  contract::StepSlot busy = slot(9, 102);
  busy.busy_until = 500 * kSecond;
  EXPECT_EQ(at(499, {slot(9, 102), busy}), Finding::kNothing);
  EXPECT_EQ(at(502, {slot(9, 102), busy}), Finding::kNothing);
  EXPECT_EQ(due_s(), 503);
  EXPECT_EQ(at(503, {slot(9, 102), busy}), Finding::kSilent);
}

TEST_F(Watch, NoticesThatAPauseHasEndedEarlyAndBelievesNoTimeThatCannotBe) {
  begin({.limit = 3s});
  contract::StepSlot busy = slot(9, 102);
  busy.busy_until = std::numeric_limits<std::int64_t>::max();
  EXPECT_EQ(at(105, {busy}), Finding::kNothing);
  EXPECT_EQ(due_s(), 108);
  busy.busy_until = 106 * kSecond;
  EXPECT_EQ(at(108, {busy}), Finding::kNothing);
  EXPECT_EQ(at(109, {busy}), Finding::kSilent);
}

TEST_F(Watch, ReportsAHangOnceAndThatItIsOver) {
  begin({.limit = 3s});
  EXPECT_EQ(at(105, {slot(9, 102)}), Finding::kSilent);
  EXPECT_TRUE(watch_.judged(HangWatch::Judgement::kComputes, 105 * kSecond));
  EXPECT_EQ(at(200, {slot(9, 102)}), Finding::kNothing);
  EXPECT_EQ(at(201, {slot(10, 201)}), Finding::kResumed);
  EXPECT_EQ(at(204, {slot(10, 201)}), Finding::kSilent);
}

TEST_F(Watch, IsPatientWithOneThatComputesIfItChoosesTheLimitItself) {
  begin({});
  std::int64_t now = 109;
  int waits = 0;
  for (;; ++waits) {
    now += 60;
    ASSERT_EQ(at(now, {slot(5, 109, 1)}), Finding::kSilent);
    if (watch_.judged(HangWatch::Judgement::kComputes, now * kSecond)) break;
  }
  EXPECT_EQ(waits, HangWatch::kPatience);
  begin({});
  EXPECT_EQ(at(169, {slot(5, 109, 1)}), Finding::kSilent);
  EXPECT_TRUE(watch_.judged(HangWatch::Judgement::kHangs, 169 * kSecond));
}

TEST_F(Watch, IsPatientIfAllWaitForAnotherNodeWhichMayHaveAnnouncedAPause) {
  begin({.limit = 3s});
  EXPECT_EQ(at(105, {slot(9, 102)}), Finding::kSilent);
  EXPECT_FALSE(watch_.judged(HangWatch::Judgement::kElsewhere, 105 * kSecond));
  EXPECT_EQ(at(107, {slot(9, 102)}), Finding::kNothing);
  EXPECT_EQ(at(108, {slot(9, 102)}), Finding::kSilent);
}

TEST_F(Watch, ExpectsNothingOfTheTimeInWhichAllWereSuspended) {
  begin({.limit = 3s});
  EXPECT_EQ(at(103, {slot(9, 102)}), Finding::kNothing);
  watch_.excuse(400 * kSecond);
  EXPECT_EQ(due_s(), 403);
  EXPECT_EQ(at(401, {slot(9, 102)}), Finding::kNothing);
  EXPECT_EQ(at(403, {slot(9, 102)}), Finding::kSilent);
}

TEST_F(Watch, ForgetsARoundThatHasEnded) {
  begin({.limit = 3s});
  EXPECT_EQ(at(105, {slot(9, 102)}), Finding::kSilent);
  watch_.end_round();
  EXPECT_FALSE(watch_.due());
  EXPECT_EQ(at(106, {slot(9, 102)}), Finding::kNothing) << "while its stacks were taken";
  watch_.begin_round(300 * kSecond);
  EXPECT_EQ(at(301, {slot(0, 0)}), Finding::kNothing);
}

}  // namespace
}  // namespace ddprun
