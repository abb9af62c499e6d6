// The expected rates are Python's, to the last digit: they are compared with ==.

#include "trainer/core/schedule.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace ddprun {
namespace {

using ::testing::HasSubstr;

double rate(const ScheduleOptions& options, std::int64_t epoch, std::int64_t batch = 0) {
  return learning_rate(options, {.epoch = epoch, .batch = batch, .batches_per_epoch = 100});
}

ScheduleOptions step_schedule() {
  ScheduleOptions options;
  options.kind = ScheduleKind::kStep;
  options.base = 0.1;
  return options;
}

ScheduleOptions cosine_schedule() {
  ScheduleOptions options;
  options.kind = ScheduleKind::kWarmupCosine;
  options.base = 1e-3;
  return options;
}

ScheduleOptions decay_schedule() {
  ScheduleOptions options;
  options.kind = ScheduleKind::kWarmupDecay;
  options.base = 0.0125;
  options.world = 8;
  return options;
}

std::string refusal_of(const ScheduleOptions& options) {
  const auto checked = check_schedule(options);
  return checked ? "accepted" : checked.error().detail;
}

TEST(LearningRate, StaysWhereItIsConstant) {
  ScheduleOptions options;
  options.base = 0.3;
  EXPECT_EQ(rate(options, 0), 0.3);
  EXPECT_EQ(rate(options, 1000, 99), 0.3);
}

TEST(LearningRate, DropsAtTheStepAndNotAnEpochLater) {
  EXPECT_EQ(rate(step_schedule(), 0), .1);
  EXPECT_EQ(rate(step_schedule(), 29, 99), .1);
  EXPECT_EQ(rate(step_schedule(), 30), .010000000000000002);
}

TEST(LearningRate, IsMultipliedOnceForEachStepAsPythonsStepLr) {
  EXPECT_EQ(rate(step_schedule(), 60), .0010000000000000002);
  EXPECT_EQ(rate(step_schedule(), 90), .00010000000000000003);
}

TEST(LearningRate, ReachesTheBaseWithTheLastEpochOfTheWarmup) {
  EXPECT_EQ(rate(cosine_schedule(), 0), 2e-4);
  EXPECT_EQ(rate(cosine_schedule(), 1), 4e-4);
  EXPECT_EQ(rate(cosine_schedule(), 4), 1e-3);
}

TEST(LearningRate, FallsAlongHalfACosine) {
  EXPECT_EQ(rate(cosine_schedule(), 5), 1e-3);
  EXPECT_EQ(rate(cosine_schedule(), 6), .0009987820251299122);
  EXPECT_EQ(rate(cosine_schedule(), 27), .0005174497483512506);
  EXPECT_EQ(rate(cosine_schedule(), 49), 1.2179748700879012e-06);
}

TEST(LearningRate, IsZeroAfterTheEndOfTheCosine) {
  EXPECT_EQ(rate(cosine_schedule(), 50), 0);
  EXPECT_EQ(rate(cosine_schedule(), 5000), 0);
}

TEST(LearningRate, NeedsNoCosineWhereTheWarmupIsTheWholeRun) {
  ScheduleOptions options = cosine_schedule();
  options.epochs = options.warmup_epochs;
  EXPECT_EQ(refusal_of(options), "accepted");
  EXPECT_EQ(rate(options, 4), 1e-3);
  EXPECT_EQ(rate(options, 5), 0);
}

TEST(LearningRate, ClimbsWithEveryBatchToTheBaseOfTheWorld) {
  EXPECT_EQ(rate(decay_schedule(), 0), .0125);
  EXPECT_EQ(rate(decay_schedule(), 0, 50), .02125);
  EXPECT_EQ(rate(decay_schedule(), 2, 50), .05625);
  EXPECT_EQ(rate(decay_schedule(), 4, 99), .099825);
  EXPECT_EQ(rate(decay_schedule(), 5), .1);
}

TEST(LearningRate, IsDividedAtEachMilestone) {
  EXPECT_EQ(rate(decay_schedule(), 29, 99), .1);
  EXPECT_EQ(rate(decay_schedule(), 30), .01);
  EXPECT_EQ(rate(decay_schedule(), 60), .001);
  EXPECT_EQ(rate(decay_schedule(), 80), .0001);
  EXPECT_EQ(rate(decay_schedule(), 800), .0001);
}

TEST(LearningRate, StartsAtTheFullRateWithoutAWarmup) {
  ScheduleOptions options = decay_schedule();
  options.warmup_epochs = 0;
  EXPECT_EQ(rate(options, 0), .1);
}

TEST(LearningRate, OfAHugeEpochIsFoundAtOnce) {
  ScheduleOptions options = step_schedule();
  options.step_epochs = 1;
  EXPECT_EQ(rate(options, std::numeric_limits<std::int64_t>::max()), 0);
  options.gamma = 1;
  EXPECT_EQ(rate(options, std::numeric_limits<std::int64_t>::max()), .1);
}

TEST(CheckSchedule, RefusesWhatMakesNoSense) {
  ScheduleOptions options = step_schedule();
  options.step_epochs = 0;
  EXPECT_THAT(refusal_of(options), HasSubstr("a step of 0 epochs"));

  options = step_schedule();
  options.base = -1;
  EXPECT_THAT(refusal_of(options), HasSubstr("-1 is not a learning rate"));

  options = step_schedule();
  options.gamma = std::nan("");
  EXPECT_THAT(refusal_of(options), HasSubstr("nan is not a factor"));

  options = cosine_schedule();
  options.warmup_epochs = 51;
  EXPECT_THAT(refusal_of(options), HasSubstr("a warm-up of 51 epochs in a run of 50"));

  options = decay_schedule();
  options.world = 0;
  EXPECT_THAT(refusal_of(options), HasSubstr("a world of 0"));

  options = decay_schedule();
  options.divisor = 0;
  EXPECT_THAT(refusal_of(options), HasSubstr("0 is not a divisor"));

  options = decay_schedule();
  options.milestones = {30, 30};
  EXPECT_THAT(refusal_of(options), HasSubstr("milestones 30,30 do not increase"));
}

TEST(CheckSchedule, AcceptsEveryKindByDefault) {
  for (const ScheduleKind kind : kScheduleKinds) {
    ScheduleOptions options;
    options.kind = kind;
    EXPECT_EQ(refusal_of(options), "accepted") << name_of(kind);
  }
}

}  // namespace
}  // namespace ddprun
