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
  kReduce,      // averages the accumulated gradients over all ranks
  kAccumulate,  // adds them to this rank's only: Python's no_sync()
};

/// Data-parallel training of one model by all ranks of a group: c10d's Reducer, driven as Python's
/// DistributedDataParallel drives it (rules P4 to P9), so that the gradients have its bits.
///
///   output = ddp.forward(images);  loss.backward();   // gradients are now the mean over ranks
class Ddp {
 public:
  /// Makes every rank start from rank 0's weights and buffers. Collective: if a rank does not
  /// construct, the others wait. Throws if a parameter's shape differs on another rank, naming it.
  Ddp(std::shared_ptr<Model> model, ProcessGroup group, const DdpOptions& options = {});

  /// Lays out the buckets as the first step of a run does, by a forward and a backward pass over
  /// `images` that change no weights, buffers, gradients or the default generator. Call it after
  /// resuming from a snapshot: otherwise the first step would be summed in the layout of a run's
  /// first step, which gives other bits with three ranks or more (P5). Collective.
  void warm_up_buckets(const torch::Tensor& images);

  /// Sets all gradients to none (P17). Do not use the optimizer's: it would detach them from the
  /// buckets in place, which torch refuses.
  void zero_grad();

  /// The forward pass, with the action of its backward pass. Of k passes that accumulate one step,
  /// the last reduces, and each loss is divided by k (P8). Collective, unless it accumulates.
  torch::Tensor forward(const torch::Tensor& images, Gradients gradients = Gradients::kReduce);

  /// The forward pass without gradients, with rank 0's running statistics. Collective.
  torch::Tensor evaluate(const torch::Tensor& images);

  /// Copies rank 0's buffers to all ranks, if a step has changed them since the last call. Call it
  /// before saving or hashing them. Collective.
  void sync_buffers();

  /// For ranks with different numbers of batches, like Python's join(): each calls it before each
  /// forward(), with that call's `gradients`, and also when it has no batch left. Yields true if it
  /// has a batch. A rank without one takes part in the others' collectives, with gradients of zero,
  /// until no rank has a batch; then all copy the weights and buffers of a rank that was among the
  /// last, and it yields false. The optimizer's state of a rank that ran out early is outdated
  /// then, as in Python.
  bool join(bool has_batch, Gradients gradients = Gradients::kReduce);

  /// Adds `sums` over all ranks, in place. Collective.
  void all_reduce(torch::Tensor& sums);

  Model& model() { return *model_; }

 private:
  void broadcast_state(int source);
  void follow(Gradients gradients);

  std::shared_ptr<Model> model_;
  ProcessGroup group_;
  DdpOptions options_;
  std::shared_ptr<c10d::Reducer> reducer_;  // shared with the logger, as torch requires
  // With finds_unused the Reducer reports to it if other parameters are unused than in the step
  // before, without checking that there is one.
  std::shared_ptr<c10d::Logger> logger_;
  bool buffers_differ_ = true;  // a step has changed them, on each rank by its own batch
  bool first_backward_pends_ = true;
  std::int64_t last_with_batch_ = 0;  // a rank that had a batch in the last join() with any
};

}  // namespace ddprun
