#pragma once

// Learning rates over time, as functions of where training stands: nothing is kept between steps,
// so who resumes needs no state of a schedule, and libtorch's StepLR, which drops an epoch late,
// has no part in it (rule P15).

#include "base/error.hpp"

#include <array>
#include <cstdint>
#include <vector>

namespace ddprun {

enum class ScheduleKind : std::uint8_t { kConstant, kStep, kWarmupCosine, kWarmupDecay };

inline constexpr std::array kScheduleKinds = {
    ScheduleKind::kConstant,
    ScheduleKind::kStep,
    ScheduleKind::kWarmupCosine,
    ScheduleKind::kWarmupDecay};

/// The flag value that names it.
const char* name_of(ScheduleKind kind);

/// What a schedule depends on; each kind reads what is named beside it.
struct ScheduleOptions {
  ScheduleKind kind = ScheduleKind::kConstant;
  double base = 0.01;  // all: the learning rate that the others are made of

  std::int64_t step_epochs = 30;  // step: epochs between two drops
  double gamma = 0.1;             // step: the factor of each drop

  std::int64_t warmup_epochs = 5;  // warmup_cosine, warmup_decay; 0: no warm-up
  std::int64_t epochs = 50;        // warmup_cosine: where the half cosine would reach 0

  int world = 1;                                     // warmup_decay: base · world follows warm-up
  std::vector<std::int64_t> milestones{30, 60, 80};  // warmup_decay: epochs that begin with a drop
  double divisor = 10;                               // warmup_decay: of each drop
};

/// A moment of training. All count from 0; 0 <= batch < batches_per_epoch.
struct TrainMoment {
  std::int64_t epoch = 0;
  std::int64_t batch = 0;
  std::int64_t batches_per_epoch = 1;
};

/// Fails with kInvalidArgument, naming the option, when the schedule makes no sense: a rate that is
/// negative or not finite, a step of no epochs, a warm-up longer than the run, milestones that do
/// not rise.
Result<void> check_schedule(const ScheduleOptions& options);

/// The learning rate of one step; the doubles are Python's.
///
/// - constant: base.
/// - step: base · gamma · gamma …, one factor for each whole step_epochs, multiplied one after the
///   other as torch.optim.lr_scheduler.StepLR does (0.1 · 0.1 is not 0.1²'s double).
/// - warmup_cosine: base · (epoch + 1) / warmup_epochs, then base · (1 + cos(π · p)) / 2 with p
/// from
///   0 at the end of the warm-up to 1 at `epochs` (Crusoe's LambdaLR).
/// - warmup_decay: straight from base to base · world over the warm-up, by fractions of an epoch
///   ("Accurate, Large Minibatch SGD", Goyal et al. 2017), then divided by `divisor` at each
///   milestone. A milestone within the warm-up counts from its end.
///
/// REQUIRES: check_schedule(options) and the ranges of TrainMoment. Behind the last epoch a cosine
/// stays at its last value, 0.
double learning_rate(const ScheduleOptions& options, const TrainMoment& at);

}  // namespace ddprun
