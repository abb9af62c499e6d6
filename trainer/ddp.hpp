#pragma once

#include "trainer/core/ddp_options.hpp"
#include "trainer/model.hpp"
#include "trainer/process_group.hpp"

#include <torch/csrc/distributed/c10d/reducer.hpp>

#include <cstdint>
#include <memory>
#include <vector>

namespace ddprun {

/// What a backward pass does with its gradients.
enum class Gradients : std::uint8_t {
  kReduce,      // averages what has gathered over all ranks
  kAccumulate,  // adds them to this rank's alone: Python's no_sync()
};

/// Data-parallel training of one model by all ranks of a group: c10d's Reducer, driven as Python's
/// DistributedDataParallel drives it (rules P4 to P9), so that the gradients have its bits.
///
///   output = ddp.forward(images);  loss.backward();   // gradients are now the mean over ranks
class Ddp {
 public:
  /// Makes every rank start from rank 0's weights and buffers. Collective: all ranks construct, or
  /// all wait. Throws where a parameter has another shape on another rank, naming it.
  Ddp(std::shared_ptr<Model> model, ProcessGroup group, const DdpOptions& options = {});

  /// Lays the buckets out as the first step of a run does, by a forward and a backward pass over
  /// `images` that leave no trace in weights, buffers, gradients or the default generator. Who goes
  /// on from a snapshot calls it: else the first step would be summed in the layout of a run's
  /// first step, which at a world of three and more gives other bits (P5). Collective.
  void warm_up_buckets(const torch::Tensor& images);

  /// Sets all gradients to none (P17). Not the optimizer's: that would detach them from the buckets
  /// in place, which torch refuses.
  void zero_grad();

  /// The forward pass, and what its backward pass will do. Of k passes that accumulate one step,
  /// the last reduces, and each loss is divided by k (P8). Collective, unless it accumulates.
  torch::Tensor forward(const torch::Tensor& images, Gradients gradients = Gradients::kReduce);

  /// The forward pass without gradients, by rank 0's running statistics. Collective.
  torch::Tensor evaluate(const torch::Tensor& images);

  /// Makes rank 0's buffers everybody's, if a step has changed them since; who saves or hashes them
  /// calls it first. Collective.
  void sync_buffers();

  /// For ranks that have different numbers of batches, as Python's join(): each calls it before
  /// each forward(), with what that will do, and without a batch of its own. Yields true where
  /// there is one. A rank without takes part in the others' collectives, with gradients of zero,
  /// until nobody has any; then all take over the weights and buffers of a rank that was among the
  /// last, and it yields false. The optimizer's state of a rank that ran out early stays behind, as
  /// in Python.
  bool join(bool has_batch, Gradients gradients = Gradients::kReduce);

  /// Adds `sums` of all ranks, in place. Collective.
  void all_reduce(torch::Tensor& sums);

  Model& model() { return *model_; }

 private:
  void broadcast_state(int source);
  void follow(Gradients gradients);

  std::shared_ptr<Model> model_;
  ProcessGroup group_;
  DdpOptions options_;
  std::shared_ptr<c10d::Reducer> reducer_;  // shared with the logger, which torch wants to own it
  // With finds_unused the Reducer reports to it when other parameters go unused than in the step
  // before, and does not ask whether there is one.
  std::shared_ptr<c10d::Logger> logger_;
  bool buffers_differ_ = true;  // a step has changed them, on each rank by its own batch
  bool first_backward_pends_ = true;
  std::int64_t last_with_batch_ = 0;  // a rank that had one when join() was last told of any
};

}  // namespace ddprun
