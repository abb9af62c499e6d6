#pragma once

#include "trainer/process_group.hpp"

#include <torch/torch.h>

namespace ddprun {

/// The learned parameters of a normalisation: (C) each, both undefined without an affine part.
struct Affine {
  torch::Tensor weight;
  torch::Tensor bias;
};

/// (C) each, updated in place; both undefined if they are not tracked.
struct RunningStatistics {
  torch::Tensor mean;
  torch::Tensor variance;
  double momentum = 0;  // weight of the new statistics, 0 to 1
};

/// Normalises (N, C, …) by mean and variance of each channel over the batches of all ranks, as the
/// training mode of batch normalisation does over one batch ("Batch Normalization", Ioffe & Szegedy
/// 2015; synchronised like Python's torch.nn.SyncBatchNorm, which exists only for GPUs).
///
/// All ranks get the same statistics, bit for bit, so the running ones stay equal. N may differ
/// between ranks and be 0; all ranks together must have a value in each channel. The output has the
/// type of `input`; statistics are float32, and sums over ranks float64.
///
/// Collective: one all-reduce forward, one backward.
torch::Tensor sync_batch_norm(
    const torch::Tensor& input,
    const Affine& affine,
    const RunningStatistics& running,
    double epsilon,
    const ProcessGroup& group);

}  // namespace ddprun
