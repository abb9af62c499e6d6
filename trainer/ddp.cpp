#include "trainer/ddp.hpp"

#include "base/check.hpp"
#include "trainer/compression.hpp"

#include <ATen/Context.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/distributed/c10d/comm.hpp>
#include <torch/csrc/distributed/c10d/logger.hpp>

#include <algorithm>
#include <limits>
#include <unordered_map>
#include <utility>

namespace ddprun {
namespace {

constexpr std::size_t kBroadcastBytes = std::size_t{250} << 20U;

std::unique_ptr<c10d::Reducer> make_reducer(
    const Model& model, const ProcessGroup& group, const DdpOptions& options) {
  std::vector<torch::Tensor> parameters;
  std::unordered_map<std::size_t, std::string> names;
  for (const auto& parameter : model.named_parameters()) {
    if (!parameter.value().requires_grad()) continue;
    names.emplace(parameters.size(), parameter.key());
    parameters.push_back(parameter.value());
  }
  const std::vector<bool> sparse(parameters.size(), false);
  const std::int64_t cap =
      options.bucket_cap_mib ? *options.bucket_cap_mib << 20U : c10d::kDefaultBucketBytesCap;
  const std::int64_t first_cap = options.bucket_cap_mib ? cap : c10d::kDefaultFirstBucketBytes;

  // P5: one bucket at first; the Reducer makes the real buckets after the first backward pass, in
  // the order in which gradients arrive. If that order may change between steps it never does so,
  // and these are the real buckets. Another layout sums in another order.
  std::vector<std::size_t> limits = {std::numeric_limits<std::int64_t>::max()};
  if (options.finds_unused && !options.has_static_graph) {
    limits = {static_cast<std::size_t>(first_cap), static_cast<std::size_t>(cap)};
  }
  auto [buckets, sizes] = c10d::compute_bucket_assignment_by_size(parameters, limits, sparse);
  std::ranges::reverse(buckets);

  auto reducer = std::make_unique<c10d::Reducer>(
      std::move(parameters),
      std::move(buckets),
      group,
      sparse,
      cap,
      options.finds_unused,
      options.gradients_are_views,
      std::move(names),
      first_cap,
      /*skip_all_reduce_unused_params=*/false,
      /*use_python_reducer=*/false,
      std::vector<std::int64_t>{});
  if (options.has_static_graph) reducer->set_static_graph();
  compress_gradients(*reducer, group, options.compression);
  return reducer;
}

/// Passes the output through, and makes the Reducer reduce after the backward pass that begins
/// here. For the first step of a static graph: only after it does the Reducer know what to reduce.
class ReduceBehindBackward : public torch::autograd::Function<ReduceBehindBackward> {
 public:
  static torch::Tensor forward(
      torch::autograd::AutogradContext* context,
      const torch::Tensor& output,
      c10d::Reducer* reducer) {
    context->saved_data["reducer"] = reinterpret_cast<std::int64_t>(reducer);
    return output.clone();
  }

  static torch::autograd::variable_list backward(
      torch::autograd::AutogradContext* context, torch::autograd::variable_list gradients) {
    // Only numbers can be saved, not pointers. NOLINTNEXTLINE(performance-no-int-to-ptr)
    auto* const reducer = reinterpret_cast<c10d::Reducer*>(context->saved_data["reducer"].toInt());
    torch::autograd::Engine::get_default_engine().queue_callback(
        [reducer] { reducer->delay_all_reduce(); });
    return {gradients[0], torch::Tensor()};
  }
};

}  // namespace

Ddp::Ddp(std::shared_ptr<Model> model, ProcessGroup group, const DdpOptions& options)
    : model_(std::move(model)), group_(std::move(group)), options_(options) {
  c10d::verify_params_across_processes(group_, model_->parameters(), std::nullopt);
  broadcast_state(/*source=*/0);
  reducer_ = make_reducer(*model_, group_, options_);
  logger_ = std::make_shared<c10d::Logger>(reducer_);
  reducer_->set_logger(logger_);
}

void Ddp::broadcast_state(int source) {
  std::vector<torch::Tensor> state;
  for (const torch::Tensor& parameter : model_->parameters()) {
    state.push_back(parameter.detach());
  }
  for (const torch::Tensor& buffer : model_->buffers()) {
    state.push_back(buffer);
  }
  c10d::broadcast_coalesced(group_, state, kBroadcastBytes, source);
}

void Ddp::warm_up_buckets(const torch::Tensor& images) {
  // Dropout draws from the generator of the images' device.
  at::Generator generator = at::globalContext().defaultGenerator(images.device());
  const torch::Tensor state = generator.get_state();
  std::vector<torch::Tensor> before;
  for (const torch::Tensor& buffer : model_->buffers()) {
    before.push_back(buffer.clone());
  }
  model_->train();
  forward(images).sum().backward();  // the next forward() rebuilds the buckets
  zero_grad();
  for (std::size_t i = 0; i < before.size(); ++i) {
    model_->buffers()[i].copy_(before[i]);
  }
  generator.set_state(state);
}

void Ddp::zero_grad() {
  for (const torch::Tensor& parameter : model_->parameters()) {
    parameter.mutable_grad().reset();
  }
}

torch::Tensor Ddp::forward(const torch::Tensor& images, Gradients gradients) {
  const bool reduces = gradients == Gradients::kReduce;
  if (reduces) reducer_->prepare_for_forward();
  static_cast<void>(reducer_->rebuild_buckets());  // acts once, after the first backward pass
  sync_buffers();
  torch::Tensor output = model_->forward(images);
  buffers_differ_ = reduces;  // P9: as in Python, a pass that accumulates does not count
  if (!reduces) return output;

  const bool varies = options_.finds_unused && !options_.has_static_graph;
  reducer_->prepare_for_backward(varies ? std::vector{output} : std::vector<torch::Tensor>{});
  if (options_.has_static_graph && std::exchange(first_backward_pends_, false)) {
    output = ReduceBehindBackward::apply(output, reducer_.get());
  }
  return output;
}

torch::Tensor Ddp::evaluate(const torch::Tensor& images) {
  const torch::NoGradGuard no_gradients;
  sync_buffers();
  return model_->forward(images);
}

void Ddp::sync_buffers() {
  const std::vector<torch::Tensor> buffers = model_->buffers();
  if (!std::exchange(buffers_differ_, false) || !options_.broadcasts_buffers || buffers.empty())
    return;
  c10d::broadcast_coalesced(group_, buffers, kBroadcastBytes, /*rank=*/0);
}

bool Ddp::join(bool has_batch, Gradients gradients) {
  enum : std::int64_t { kOut = 0, kAccumulates = 1, kReduces = 2 };
  const std::int64_t mine = !has_batch                        ? kOut
                            : gradients == Gradients::kReduce ? kReduces
                                                              : kAccumulates;
  while (true) {
    torch::Tensor all = torch::zeros({group_->getSize()}, torch::kInt64);
    all[group_->getRank()] = mine;
    all_reduce(all);
    const auto furthest = all.argmax().item<std::int64_t>();
    const auto does = all[furthest].item<std::int64_t>();
    if (does == kOut) break;
    last_with_batch_ = furthest;
    if (has_batch) return true;
    follow(does == kReduces ? Gradients::kReduce : Gradients::kAccumulate);
  }
  broadcast_state(static_cast<int>(last_with_batch_));
  buffers_differ_ = false;
  return false;
}

/// Takes part in the collectives of another rank's step.
void Ddp::follow(Gradients gradients) {
  static_cast<void>(reducer_->rebuild_buckets());
  sync_buffers();
  buffers_differ_ = gradients == Gradients::kReduce;
  if (gradients == Gradients::kAccumulate) return;
  std::vector<c10::intrusive_ptr<c10::ivalue::Future>> under_way;
  for (c10d::GradBucket& bucket : reducer_->get_grad_buckets(/*return_zero_tensors=*/true)) {
    under_way.push_back(reducer_->run_comm_hook(bucket));
  }
  for (const auto& sum : under_way) {
    sum->wait();
  }
  if (options_.finds_unused) {
    torch::Tensor used = reducer_->get_local_used_map_on_device();
    all_reduce(used);
  }
  reducer_->push_rebuilt_params_for_all_indices();
}

void Ddp::all_reduce(torch::Tensor& sums) {
  std::vector<torch::Tensor> tensors{sums};
  group_->allreduce(tensors)->wait();
}

}  // namespace ddprun
