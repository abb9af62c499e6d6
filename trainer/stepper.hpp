#pragma once

#include "trainer/core/options.hpp"
#include "trainer/data/loader.hpp"
#include "trainer/ddp.hpp"
#include "trainer/grad_scaler.hpp"
#include "trainer/optimizer.hpp"

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace ddprun {

/// Makes the steps of one rank: forward, backward and update, as a Python loop would.
///
///   stepper.begin();
///   for each pass: stepper.pass(batch, is last ? Gradients::kReduce : Gradients::kAccumulate);
///   stepper.update(learning_rate);
class Stepper {
 public:
  /// One forward and backward pass of this rank.
  struct Pass {
    double loss = 0;  // mean over its batch
    std::int64_t right = 0;
  };

  /// The result of a step.
  struct Update {
    std::optional<double> gradient_norm;  // before clipping; none without clipping
    bool is_skipped = false;              // a scaled gradient was not finite, on all ranks
  };

  /// All arguments outlive it.
  Stepper(const TrainOptions& options, torch::Device device, Ddp& ddp, Optimizer& optimizer);

  /// Drops the gradients of the previous step.
  void begin();

  /// Collective if it reduces.
  Pass pass(const Batch& batch, Gradients gradients);

  /// Unscales, clips and updates, in this order (P16).
  Update update(double learning_rate);

  /// Loss and scores without gradients, with rank 0's running statistics. Collective.
  struct Scores {
    double loss = 0;  // mean over the batch
    std::int64_t right = 0;
    std::int64_t top5_correct = 0;
  };
  Scores evaluate(const Batch& batch);

  /// The names and values of its state for a snapshot; empty without a loss scale.
  static std::vector<std::string> state_names(const TrainOptions& options);
  std::map<std::string, double> state() const;
  Result<void> load(const std::map<std::string, double>& state);

 private:
  torch::Tensor loss_of(const torch::Tensor& output, const torch::Tensor& labels) const;

  const TrainOptions& options_;
  torch::Device device_;
  Ddp& ddp_;
  Optimizer& optimizer_;
  std::unique_ptr<GradScaler> scaler_;  // null unless the loss is scaled
};

}  // namespace ddprun
