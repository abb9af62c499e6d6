#pragma once

// The batch normalisation that models are built with: torch's own until it gets a group.
//
// A libtorch module keeps each layer twice, as a registered child and as a member of its type, so a
// layer cannot be replaced from outside as Python's convert_sync_batchnorm does. Here the layer
// stays and is given a group.

#include "trainer/process_group.hpp"

#include <torch/torch.h>

#include <cstdint>

namespace ddprun {

/// Over (N, C, H, W), with the parameters, buffers and options of torch::nn::BatchNorm2d, and the
/// same bits unless there is a group of several ranks and the module is training.
///
/// With such a group, training normalises by the mean and variance of the batches of all ranks,
/// like Python's SyncBatchNorm. Forward and backward are then collective, one all-reduce each;
/// ranks may differ in N, which may be 0. The gradients of weight and bias are those of this rank's
/// batch: DDP averages them.
class BatchNormImpl : public torch::nn::BatchNorm2dImpl {
 public:
  using torch::nn::BatchNorm2dImpl::BatchNorm2dImpl;

  /// Hides the base's forward(): libtorch's modules have no virtual one.
  torch::Tensor forward(const torch::Tensor& input);

  /// From now on, statistics cover all ranks of `group`; null: only this rank.
  void set_group(ProcessGroup group);

 private:
  torch::Tensor forward_synced(const torch::Tensor& input);
  double next_momentum();

  ProcessGroup group_;
};

TORCH_MODULE(BatchNorm);

/// Sets the group of every BatchNorm in `module`, and returns how many there are. Parameters,
/// buffers and their names stay. REQUIRES: no plain torch::nn::BatchNorm2d among them: it would
/// keep its own statistics.
int convert_sync_batch_norm(torch::nn::Module& module, const ProcessGroup& group);

}  // namespace ddprun
