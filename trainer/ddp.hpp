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
