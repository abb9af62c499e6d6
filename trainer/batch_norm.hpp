#pragma once

// The batch normalisation that models are built with: torch's own, until it is told a group.
//
// A libtorch module keeps each layer twice, as a registered child and as a member of its type, so a
// layer cannot be exchanged from outside as Python's convert_sync_batchnorm does. Here the layer
// stays and learns a group.

#include "trainer/process_group.hpp"

#include <torch/torch.h>

#include <cstdint>

namespace ddprun {

/// Over (N, C, H, W), with the parameters, buffers and options of torch::nn::BatchNorm2d and its
/// bits, as long as there is no group, the group has one rank, or the module does not train.
///
/// With a group, training normalises by the mean and variance of the batches of all ranks: Python's
/// SyncBatchNorm. Forward and backward are collective then, one all-reduce each; ranks may differ
/// in N, 0 included. The gradients of weight and bias are those of this rank's batch: DDP averages
/// them.
class BatchNormImpl : public torch::nn::BatchNorm2dImpl {
 public:
  using torch::nn::BatchNorm2dImpl::BatchNorm2dImpl;

  /// In place of the base's: libtorch's modules have no virtual one.
  torch::Tensor forward(const torch::Tensor& input);

  /// From now on, statistics are those of all ranks of `group`; null: of this rank.
  void set_group(ProcessGroup group);

 private:
  torch::Tensor forward_synced(const torch::Tensor& input);
  double next_momentum();

  ProcessGroup group_;
};

TORCH_MODULE(BatchNorm);

/// Tells every BatchNorm in `module` its group, and returns how many there are. Parameters,
/// buffers and their names stay. REQUIRES: no torch::nn::BatchNorm2d among them that is not ours:
/// it would keep statistics of its own.
int convert_sync_batch_norm(torch::nn::Module& module, const ProcessGroup& group);

}  // namespace ddprun
