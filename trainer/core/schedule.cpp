#include "trainer/core/schedule.hpp"

#include "base/check.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numbers>
#include <string>
#include <utility>

namespace ddprun {
namespace {

// Every line below evaluates in the same order as Python: sums and products of doubles are not
// associative, and the results are compared with ==.

double step_rate(const ScheduleOptions& options, std::int64_t epoch) {
  double rate = options.base;
  for (std::int64_t drops = epoch / options.step_epochs; drops > 0; --drops) {
    const double dropped = rate * options.gamma;
    if (dropped == rate) break;  // 0, or a gamma of 1: the other factors change nothing
    rate = dropped;
  }
  return rate;
}

double warmup_cosine_rate(const ScheduleOptions& options, std::int64_t epoch) {
  if (epoch < options.warmup_epochs) {
    const double factor =
        static_cast<double>(epoch + 1) / static_cast<double>(options.warmup_epochs);
    return options.base * factor;
  }
  if (epoch >= options.epochs) return 0;
  const double progress = static_cast<double>(epoch - options.warmup_epochs) /
                          static_cast<double>(options.epochs - options.warmup_epochs);
  const double factor = 0.5 * (1.0 + std::cos(std::numbers::pi * progress));
  return options.base * factor;
}

double warmup_decay_rate(const ScheduleOptions& options, const TrainMoment& at) {
  const auto world = static_cast<double>(options.world);
  const double full = options.base * world;
  if (at.epoch < options.warmup_epochs) {
    const double epoch = static_cast<double>(at.epoch) +
                         static_cast<double>(at.batch) / static_cast<double>(at.batches_per_epoch);
    const double climbed = epoch * (world - 1.0) / static_cast<double>(options.warmup_epochs);
    const double factor = 1.0 / world * (climbed + 1.0);
    return full * factor;
  }
  double rate = full;
  for (const std::int64_t milestone : options.milestones) {
    if (at.epoch >= milestone) rate /= options.divisor;
  }
  return rate;
}

Error refused(std::string what) {
  return make_error(Errc::kInvalidArgument, "learning rate schedule: " + std::move(what));
}

bool is_rate(double value) {
  return std::isfinite(value) && value >= 0;
}

}  // namespace

const char* name_of(ScheduleKind kind) {
  switch (kind) {
    case ScheduleKind::kConstant:
      return "constant";
    case ScheduleKind::kStep:
      return "step";
    case ScheduleKind::kWarmupCosine:
      return "warmup_cosine";
    case ScheduleKind::kWarmupDecay:
      return "warmup_decay";
  }
  return "";
}

Result<void> check_schedule(const ScheduleOptions& options) {
  if (!is_rate(options.base)) {
    return refused(fmt::format("{} is not a learning rate", options.base));
  }
  if (!is_rate(options.gamma)) return refused(fmt::format("{} is not a factor", options.gamma));
  if (!std::isfinite(options.divisor) || options.divisor <= 0) {
    return refused(fmt::format("{} is not a divisor", options.divisor));
  }
  if (options.step_epochs < 1) {
    return refused(fmt::format("a step of {} epochs", options.step_epochs));
  }
  if (options.warmup_epochs < 0) {
    return refused(fmt::format("a warm-up of {} epochs", options.warmup_epochs));
  }
  if (options.kind == ScheduleKind::kWarmupCosine && options.warmup_epochs > options.epochs) {
    return refused(fmt::format(
        "a warm-up of {} epochs in a run of {}", options.warmup_epochs, options.epochs));
  }
  if (options.world < 1) return refused(fmt::format("a world of {}", options.world));
  const auto& milestones = options.milestones;
  const bool rise =
      std::ranges::adjacent_find(milestones, std::greater_equal<>{}) == milestones.end();
  if (!rise || (!milestones.empty() && milestones.front() < 0)) {
    return refused(fmt::format("milestones {} do not increase", fmt::join(milestones, ",")));
  }
  return {};
}

double learning_rate(const ScheduleOptions& options, const TrainMoment& at) {
  DDPRUN_CHECK(at.epoch >= 0 && at.batch >= 0 && at.batch < at.batches_per_epoch);
  switch (options.kind) {
    case ScheduleKind::kConstant:
      return options.base;
    case ScheduleKind::kStep:
      return step_rate(options, at.epoch);
    case ScheduleKind::kWarmupCosine:
      return warmup_cosine_rate(options, at.epoch);
    case ScheduleKind::kWarmupDecay:
      return warmup_decay_rate(options, at);
  }
  return options.base;
}

}  // namespace ddprun
