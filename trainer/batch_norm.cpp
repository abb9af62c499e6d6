#include "trainer/batch_norm.hpp"

#include "base/check.hpp"
#include "trainer/sync_batch_norm.hpp"

#include <utility>

namespace ddprun {

torch::Tensor BatchNormImpl::forward(const torch::Tensor& input) {
  const bool is_synced = group_.defined() && group_->getSize() > 1 && is_training();
  return is_synced ? forward_synced(input) : torch::nn::BatchNorm2dImpl::forward(input);
}

void BatchNormImpl::set_group(ProcessGroup group) {
  group_ = std::move(group);
}

torch::Tensor BatchNormImpl::forward_synced(const torch::Tensor& input) {
  _check_input_dim(input);
  const RunningStatistics running{
      .mean = running_mean, .variance = running_var, .momentum = next_momentum()};
  return sync_batch_norm(input, {.weight = weight, .bias = bias}, running, options.eps(), group_);
}

/// The weight of the new statistics against the running ones; counts this batch.
double BatchNormImpl::next_momentum() {
  if (!num_batches_tracked.defined()) return 0;
  num_batches_tracked.add_(1);
  // Without a momentum, all batches have the same weight.
  return options.momentum().value_or(1.0 / num_batches_tracked.item<double>());
}

int convert_sync_batch_norm(torch::nn::Module& module, const ProcessGroup& group) {
  int converted = 0;
  module.apply([&](torch::nn::Module& child) {
    if (child.as<torch::nn::BatchNorm2dImpl>() == nullptr) return;
    auto* const norm = dynamic_cast<BatchNormImpl*>(&child);
    DDPRUN_CHECK(norm != nullptr);
    norm->set_group(group);
    ++converted;
  });
  return converted;
}

}  // namespace ddprun
