#include "trainer/evaluator.hpp"

#include "base/time.hpp"
#include "trainer/feeder.hpp"

#include <torch/torch.h>

namespace ddprun {

Result<std::optional<Evaluation>> Evaluator::run(StopAgreement& stop) {
  const TimePoint began = Clock::now();
  ddp_.model().eval();
  ddp_.sync_buffers();  // here, since a rank may have no sample
  Feeder feeder(loader_, device_);
  const auto started = loader_.start(samples_);
  if (!started) return started.error();
  MetricSums sums;
  double correct_top5 = 0;
  double batch_loss_sum = 0;
  bool is_cut_short = false;
  while (true) {
    is_cut_short = stop.have_all_heard();
    if (is_cut_short) break;
    const auto batch = feeder.next();
    if (!batch) return batch.error();
    if (!*batch) break;
    const Stepper::Scores scores = stepper_.evaluate(**batch);
    sums.add(scores.loss, scores.right, (*batch)->size());
    correct_top5 += static_cast<double>(scores.top5_correct);
    batch_loss_sum += scores.loss;
  }
  // Some ranks may already be done when the notice comes.
  torch::Tensor packed = torch::tensor(
      {sums.loss,
       sums.correct,
       sums.samples,
       correct_top5,
       batch_loss_sum,
       is_cut_short ? 1.0 : 0.0},
      torch::kFloat64);
  ddp_.all_reduce(packed);
  const auto* const all = packed.const_data_ptr<double>();
  ddp_.model().train();
  if (all[5] > 0) return std::optional<Evaluation>();
  return std::optional(Evaluation{
      .sums = {.loss = all[0], .correct = all[1], .samples = all[2]},
      .correct_top5 = all[3],
      .batch_loss_sum = all[4],
      .seconds = to_seconds(Clock::now() - began)});
}

}  // namespace ddprun
