#include "trainer/ddp.hpp"

#include <ATen/CPUGeneratorImpl.h>
#include <torch/csrc/distributed/c10d/comm.hpp>

#include <algorithm>
#include <limits>
#include <unordered_map>
#include <utility>

namespace ddprun {
namespace {

constexpr std::size_t kBroadcastBytes = std::size_t{250} << 20U;

std::unique_ptr<c10d::Reducer> make_reducer(const Model& model, const ProcessGroup& group) {
  std::vector<torch::Tensor> parameters;
  std::unordered_map<std::size_t, std::string> names;
  for (const auto& parameter : model.named_parameters()) {
    if (!parameter.value().requires_grad()) continue;
    names.emplace(parameters.size(), parameter.key());
    parameters.push_back(parameter.value());
  }
  const std::vector<bool> sparse(parameters.size(), false);

  // P5: one bucket at first; the Reducer makes the real ones after the first backward pass, in the
  // order in which gradients arrive. Another layout sums in another order.
  constexpr std::size_t kNoLimit = std::numeric_limits<std::int64_t>::max();
  auto [buckets, limits] = c10d::compute_bucket_assignment_by_size(parameters, {kNoLimit}, sparse);
  std::ranges::reverse(buckets);

  // Gradients are views of the buckets: no copy, and no other bit (P19).
  return std::make_unique<c10d::Reducer>(
      std::move(parameters),
      std::move(buckets),
      group,
      sparse,
      c10d::kDefaultBucketBytesCap,
      /*find_unused_parameters=*/false,
      /*gradient_as_bucket_view=*/true,
      std::move(names),
      c10d::kDefaultFirstBucketBytes,
      /*skip_all_reduce_unused_params=*/false,
      /*use_python_reducer=*/false,
      std::vector<std::int64_t>{});
}

}  // namespace

Ddp::Ddp(std::shared_ptr<Model> model, ProcessGroup group)
    : model_(std::move(model)), group_(std::move(group)) {
  const std::vector<torch::Tensor> parameters = model_->parameters();
  c10d::verify_params_across_processes(group_, parameters, std::nullopt);

  const std::vector<torch::Tensor> buffers = model_->buffers();
  std::vector<torch::Tensor> state;
  state.reserve(parameters.size() + buffers.size());
  for (const torch::Tensor& parameter : parameters) {
    state.push_back(parameter.detach());
  }
  state.insert(state.end(), buffers.begin(), buffers.end());
  c10d::broadcast_coalesced(group_, state, kBroadcastBytes, /*rank=*/0);
  reducer_ = make_reducer(*model_, group_);
}

void Ddp::settle_buckets(const torch::Tensor& images) {
  at::Generator generator = at::detail::getDefaultCPUGenerator();
  const torch::Tensor state = generator.get_state();
  model_->train();
  forward(images).sum().backward();  // the next forward() rebuilds the buckets
  zero_grad();
  generator.set_state(state);
}

void Ddp::zero_grad() {
  for (const torch::Tensor& parameter : model_->parameters()) {
    parameter.mutable_grad().reset();
  }
}

torch::Tensor Ddp::forward(const torch::Tensor& images) {
  reducer_->prepare_for_forward();
  static_cast<void>(reducer_->rebuild_buckets());  // acts once, after the first backward pass
  torch::Tensor output = model_->forward(images);
  reducer_->prepare_for_backward({});
  return output;
}

void Ddp::all_reduce(torch::Tensor& sums) {
  std::vector<torch::Tensor> tensors{sums};
  group_->allreduce(tensors)->wait();
}

}  // namespace ddprun
