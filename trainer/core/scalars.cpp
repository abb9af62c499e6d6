#include "trainer/core/scalars.hpp"

namespace ddprun {
namespace {

double accuracy(const MetricSums& sums) {
  return sums.correct / sums.samples;
}

ScalarSet kaust(const ReportEvent& event) {
  const auto* const epoch = std::get_if<EpochValidated>(&event);
  if (epoch == nullptr) return {};
  const EpochTrained& trained = epoch->trained;
  return {
      .step = trained.at.epoch,
      .scalars = {
          {.tag = "Loss/train", .value = trained.sums.mean_loss()},
          {.tag = "Loss/val", .value = epoch->sums.mean_loss()},
          {.tag = "Accuracy/train", .value = trained.sums.accuracy_percent()},
          {.tag = "Accuracy/val", .value = epoch->sums.accuracy_percent()},
          {.tag = "Throughput/images_per_sec", .value = epoch->epoch_samples_per_s()},
          {.tag = "LR", .value = trained.learning_rate}}};
}

ScalarSet mila_step(const StepDone& step) {
  ScalarSet set{
      .step = step.at.step,
      .scalars = {
          {.tag = "train/loss", .value = step.sums.mean_loss()},
          {.tag = "train/accuracy", .value = accuracy(step.sums)},
          {.tag = "train/samples_per_sec", .value = step.rates.samples_per_s},
          {.tag = "epoch", .value = static_cast<double>(step.at.epoch)},
          {.tag = "updates", .value = static_cast<double>(step.at.step)},
          {.tag = "samples", .value = static_cast<double>(step.samples_of_run)},
          {.tag = "train/learning_rate", .value = step.learning_rate}}};
  if (step.grad_norm) set.scalars.push_back({.tag = "train/grad_norm", .value = *step.grad_norm});
  if (step.rates.mfu) set.scalars.push_back({.tag = "train/mfu", .value = *step.rates.mfu});
  return set;
}

ScalarSet mila_epoch(const EpochValidated& epoch) {
  ScalarSet set{
      .step = epoch.trained.at.step,
      .scalars = {
          {.tag = "val/loss", .value = epoch.sums.mean_loss()},
          {.tag = "val/accuracy", .value = accuracy(epoch.sums)},
          {.tag = "val/samples_per_sec", .value = epoch.samples_per_s()},
          {.tag = "epoch", .value = static_cast<double>(epoch.trained.at.epoch)}}};
  if (epoch.correct_top5) {
    set.scalars.push_back(
        {.tag = "val/accuracy_top5", .value = *epoch.correct_top5 / epoch.sums.samples});
  }
  return set;
}

}  // namespace

ScalarNames scalar_names_of(LineStyle style) {
  return style == LineStyle::kKaust ? ScalarNames::kKaust : ScalarNames::kMila;
}

ScalarSet scalars_of(const ReportEvent& event, ScalarNames names, std::int64_t step_every) {
  if (names == ScalarNames::kKaust) return kaust(event);
  if (const auto* const epoch = std::get_if<EpochValidated>(&event)) return mila_epoch(*epoch);
  const auto* const step = std::get_if<StepDone>(&event);
  const bool is_due = step != nullptr && is_step_reported(step->batch, step->batches, step_every);
  return is_due ? mila_step(*step) : ScalarSet();
}

}  // namespace ddprun
