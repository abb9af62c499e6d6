#pragma once

#include "base/error.hpp"
#include "trainer/core/metrics.hpp"
#include "trainer/data/loader.hpp"
#include "trainer/ddp.hpp"
#include "trainer/device.hpp"
#include "trainer/stepper.hpp"
#include "trainer/stop_agreement.hpp"

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

namespace ddprun {

/// The result of a pass over the test set, of all ranks together.
struct Evaluation {
  MetricSums sums;
  double correct_top5 = 0;    // samples with the right class among five guesses
  double batch_loss_sum = 0;  // sum of the mean losses of the batches
  double seconds = 0;
};

/// Evaluates on the test set, of which each rank has its share.
class Evaluator {
 public:
  /// `samples` are this rank's, in the source of `loader`. The other arguments outlive it.
  Evaluator(
      std::vector<std::int64_t> samples, Loader& loader, Device& device, Ddp& ddp, Stepper& stepper)
      : samples_(std::move(samples)),
        loader_(loader),
        device_(device),
        ddp_(ddp),
        stepper_(stepper) {}

  /// Uses the current weights of the model, which trains on afterwards. Collective. None, on
  /// all ranks, if a notice came meanwhile. Fails with the error of a sample, naming its
  /// file.
  Result<std::optional<Evaluation>> run(StopAgreement& stop);

 private:
  std::vector<std::int64_t> samples_;
  Loader& loader_;
  Device& device_;
  Ddp& ddp_;
  Stepper& stepper_;
};

}  // namespace ddprun
