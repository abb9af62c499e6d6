#pragma once

#include "trainer/model.hpp"
#include "trainer/process_group.hpp"

#include <torch/csrc/distributed/c10d/reducer.hpp>

#include <memory>
#include <vector>

namespace ddprun {

/// Data-parallel training of one model by all ranks of a group: c10d's Reducer, driven as Python's
/// DistributedDataParallel drives it (rules P4 to P7), so that the gradients have its bits.
///
///   output = ddp.forward(images);  loss.backward();   // gradients are now the mean over ranks
class Ddp {
 public:
  /// Makes every rank start from rank 0's weights. Collective: all ranks construct, or all wait.
  Ddp(std::shared_ptr<Model> model, ProcessGroup group);

  /// Lays the buckets out as the first step of a run does, by a forward and a backward pass over
  /// `images` that leave no trace in weights, gradients or the default generator. Who goes on from
  /// a snapshot calls it: else the first step would be summed in the layout of a run's first step,
  /// which at a world of three and more gives other bits (P5). Collective.
  void settle_buckets(const torch::Tensor& images);

  /// Sets all gradients to none (P17). Not the optimizer's: that would detach them from the buckets
  /// in place, which torch refuses.
  void zero_grad();

  /// The forward pass whose backward pass averages the gradients over all ranks. Collective.
  torch::Tensor forward(const torch::Tensor& images);

  /// Adds `sums` of all ranks, in place. Collective.
  void all_reduce(torch::Tensor& sums);

  Model& model() { return *model_; }

 private:
  std::shared_ptr<Model> model_;
  ProcessGroup group_;
  std::unique_ptr<c10d::Reducer> reducer_;
};

}  // namespace ddprun
