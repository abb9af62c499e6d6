#include "trainer/evaluator.hpp"

#include "base/time.hpp"
#include "trainer/feeder.hpp"

#include <torch/torch.h>

namespace ddprun {

Result<Evaluation> Evaluator::run() {
  const TimePoint began = Clock::now();
  ddp_.model().eval();
  ddp_.settle_buffers();  // here, since a rank may have no sample
  Feeder feeder(loader_, device_);
  const auto started = loader_.start(samples_);
  if (!started) return started.error();
  MetricSums sums;
  double correct_top5 = 0;
  double batch_loss_sum = 0;
  while (true) {
    const auto batch = feeder.next();
    if (!batch) return batch.error();
    if (!*batch) break;
    const Stepper::Scores scores = stepper_.evaluate(**batch);
    sums.add(scores.loss, scores.right, (*batch)->size());
    correct_top5 += static_cast<double>(scores.right_of_five);
    batch_loss_sum += scores.loss;
  }
  torch::Tensor packed = torch::tensor(
      {sums.loss, sums.correct, sums.samples, correct_top5, batch_loss_sum}, torch::kFloat64);
  ddp_.all_reduce(packed);
  const auto* const all = packed.const_data_ptr<double>();
  ddp_.model().train();
  return Evaluation{
      .sums = {.loss = all[0], .correct = all[1], .samples = all[2]},
      .correct_top5 = all[3],
      .batch_loss_sum = all[4],
      .seconds = to_seconds(Clock::now() - began)};
}

}  // namespace ddprun
