#pragma once

#include "base/error.hpp"
#include "trainer/core/metrics.hpp"
#include "trainer/core/worker_place.hpp"
#include "trainer/data/loader.hpp"
#include "trainer/ddp.hpp"
#include "trainer/device.hpp"
#include "trainer/stepper.hpp"
#include "trainer/training_data.hpp"

namespace ddprun {

/// What a walk over the test set found, of all ranks together.
struct Evaluation {
  MetricSums sums;
  double correct_top5 = 0;    // samples of which one of five guesses was right
  double batch_loss_sum = 0;  // of each batch's mean loss
  double seconds = 0;
};

/// Walks over the test set. Each rank takes its share, and no sample counts twice.
class Evaluator {
 public:
  /// All outlive it; `loader` is one of the test set's source.
  Evaluator(
      const SampleSet& test,
      Loader& loader,
      const WorkerPlace& place,
      Device& device,
      Ddp& ddp,
      Stepper& stepper)
      : test_(test),
        loader_(loader),
        place_(place),
        device_(device),
        ddp_(ddp),
        stepper_(stepper) {}

  /// With the weights as they are; the model is one that trains afterwards. Collective. Fails with
  /// what is wrong with a sample, naming its file.
  Result<Evaluation> run();

 private:
  const SampleSet& test_;
  Loader& loader_;
  const WorkerPlace& place_;
  Device& device_;
  Ddp& ddp_;
  Stepper& stepper_;
};

}  // namespace ddprun
