#pragma once

// Learning rates as functions of the position in training: nothing is kept between steps, so
// resuming needs no state of a schedule. libtorch's StepLR, which drops one epoch late, is not used
// (rule P15).

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

/// The parameters of a schedule; each kind reads those marked with its name.
struct ScheduleOptions {
  ScheduleKind kind = ScheduleKind::kConstant;
  double base = 0.01;  // all: the learning rate from which the others derive

  std::int64_t step_epochs = 30;  // step: epochs between two drops
  double gamma = 0.1;             // step: the factor of each drop

  std::int64_t warmup_epochs = 5;  // warmup_cosine, warmup_decay; 0: no warm-up
  std::int64_t epochs = 50;        // warmup_cosine: where the half cosine would reach 0

  int world = 1;  // warmup_decay: base · world after the warm-up
  std::vector<std::int64_t> milestones{30, 60, 80};  // warmup_decay: epochs that begin with a drop
  double divisor = 10;                               // warmup_decay: at each drop
};

/// A moment of training. All count from 0; 0 <= batch < batches_per_epoch.
struct TrainMoment {
  std::int64_t epoch = 0;
  std::int64_t batch = 0;
  std::int64_t batches_per_epoch = 1;
};

/// Fails with kInvalidArgument, naming the option, if the schedule is invalid: a rate that is
/// negative or not finite, a step of 0 epochs, a warm-up longer than the run, milestones that do
/// not increase.
Result<void> check_schedule(const ScheduleOptions& options);

/// The learning rate of one step; equal to Python's double.
///
/// - constant: base.
/// - step: base · gamma · gamma …, one factor for each whole step_epochs, multiplied one by one as
///   torch.optim.lr_scheduler.StepLR does (0.1 · 0.1 is not the double of 0.1²).
/// - warmup_cosine: base · (epoch + 1) / warmup_epochs, then base · (1 + cos(π · p)) / 2, where p
///   goes from 0 at the end of the warm-up
///   to 1 at `epochs` (Crusoe's LambdaLR).
/// - warmup_decay: linear from base to base · world over the warm-up, by fractions of an epoch
///   ("Accurate, Large Minibatch SGD", Goyal et al. 2017), then divided by `divisor` at each
///   milestone. A milestone within the warm-up counts from the end of the warm-up.
///
/// REQUIRES: check_schedule(options) and the ranges of TrainMoment. After the last epoch a cosine
/// stays at its last value, 0.
double learning_rate(const ScheduleOptions& options, const TrainMoment& at);

}  // namespace ddprun
