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

/// What a walk over the test set found, of all ranks together.
struct Evaluation {
  MetricSums sums;
  double correct_top5 = 0;    // samples of which one of five guesses was right
  double batch_loss_sum = 0;  // of each batch's mean loss
  double seconds = 0;
};

/// Walks over the test set, of which each rank has its share.
class Evaluator {
 public:
  /// `samples` are this rank's, of the source that `loader` reads. All others outlive it.
  Evaluator(
      std::vector<std::int64_t> samples, Loader& loader, Device& device, Ddp& ddp, Stepper& stepper)
      : samples_(std::move(samples)),
        loader_(loader),
        device_(device),
        ddp_(ddp),
        stepper_(stepper) {}

  /// With the weights as they are; the model is one that trains afterwards. Collective. None, on
  /// all ranks, if a notice of the end came meanwhile. Fails with what is wrong with a sample,
  /// naming its file.
  Result<std::optional<Evaluation>> run(StopAgreement& stop);

 private:
  std::vector<std::int64_t> samples_;
  Loader& loader_;
  Device& device_;
  Ddp& ddp_;
  Stepper& stepper_;
};

}  // namespace ddprun
