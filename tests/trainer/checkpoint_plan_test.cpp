#include "trainer/core/checkpoint_plan.hpp"

#include <gmock/gmock.h>

#include <vector>

namespace ddprun {
namespace {

using enum CheckpointStyle;
using testing::ElementsAre;

/// The epochs, from 0, after which a run of seven has a file.
std::vector<std::int64_t> due(CheckpointStyle style, std::int64_t every) {
  constexpr std::int64_t kEpochs = 7;
  std::vector<std::int64_t> numbers;
  for (std::int64_t number = 0; number < kEpochs; ++number) {
    if (is_checkpoint_due(style, number, every, number + 1 == kEpochs)) numbers.push_back(number);
  }
  return numbers;
}

TEST(CheckpointPlan, BeginsWithTheFirstOrTheNthEpochAsItsProgramDoesAndHasTheLast) {
  EXPECT_THAT(due(kMila, 3), ElementsAre(2, 5, 6));
  EXPECT_THAT(due(kCrusoe, 3), ElementsAre(2, 5, 6));
  EXPECT_THAT(due(kImagenet, 1), ElementsAre(0, 1, 2, 3, 4, 5, 6));
  EXPECT_THAT(due(kSnapshot, 3), ElementsAre(0, 3, 6));
  EXPECT_THAT(due(kOpenAccWeights, checkpoint_interval(kOpenAccWeights)), ElementsAre(0, 6));
}

TEST(CheckpointPlan, KnowsItsOwnLeftoversAndNobodyElses) {
  EXPECT_TRUE(is_leftover_checkpoint(kMila, 0, "epoch_12.pt.4711.tmp"));
  EXPECT_TRUE(is_leftover_checkpoint(kMila, 0, "epoch_0.pt.1.tmp"));
  EXPECT_TRUE(is_leftover_checkpoint(kCrusoe, 0, "checkpoint_epoch_3.pt.1.tmp"));
  EXPECT_TRUE(is_leftover_checkpoint(kOpenAcc, 3, "model3.pt.1.tmp"));
  EXPECT_TRUE(is_leftover_checkpoint(kImagenet, 0, "model_best.pth.tar.99.tmp"));
  EXPECT_TRUE(is_leftover_checkpoint(kMilaCifar, 0, "checkpoint.pth.99.tmp"));
  EXPECT_TRUE(is_leftover_checkpoint(kOpenAccWeights, 0, "resnet_distributed.pth.99.tmp"));

  EXPECT_FALSE(is_leftover_checkpoint(kOpenAcc, 3, "model2.pt.1.tmp")) << "another rank's";
  EXPECT_FALSE(is_leftover_checkpoint(kMila, 0, "epoch_12.pt"));
  EXPECT_FALSE(is_leftover_checkpoint(kMila, 0, "epoch_12.pt.tmp"));
  EXPECT_FALSE(is_leftover_checkpoint(kMila, 0, "epoch_012.pt.4711.tmp"));
  EXPECT_FALSE(is_leftover_checkpoint(kMila, 0, "notes.4711.tmp"));
  EXPECT_FALSE(is_leftover_checkpoint(kMila, 0, ".4711.tmp"));
}

TEST(CheckpointPlan, HasSettingsThatTorchKnowsForEveryOptimizer) {
  for (const OptimizerKind kind : kOptimizerKinds) {
    const OptimizerOptions options = default_options(kind);
    const auto group = optimizer_group(name_of(kind), optimizer_settings(options, 0.25));
    ASSERT_TRUE(group) << group.error().detail;
    EXPECT_EQ(*group->find("lr")->get_if<double>(), 0.25) << name_of(kind);
    const auto defaults = optimizer_group(name_of(kind), {});
    EXPECT_EQ(group->entries.size(), defaults->entries.size());
    const auto* const decay = defaults->find("weight_decay")->get_if<double>();
    EXPECT_EQ(*group->find("weight_decay")->get_if<double>(), *decay) << name_of(kind);
  }
}

TEST(CheckpointPlan, TellsTorchsStepLrWhereItStands) {
  const ScheduleOptions step{.kind = ScheduleKind::kStep, .base = 0.1, .step_epochs = 2};
  const PyDict state = schedule_state(step, 3, 0.01);
  EXPECT_EQ(*state.find("last_epoch")->get_if<std::int64_t>(), 3);
  EXPECT_EQ(*state.find("_step_count")->get_if<std::int64_t>(), 4);
  EXPECT_EQ(*state.find("_last_lr")->get_if<PyList>()->items.at(0).get_if<double>(), 0.01);
  EXPECT_TRUE(schedule_state({}, 3, 0.01).entries.empty());
}

}  // namespace
}  // namespace ddprun
