#include "trainer/data/loader.hpp"

#include "base/check.hpp"

#include <algorithm>
#include <array>
#include <iterator>
#include <utility>

namespace ddprun {
namespace {

/// Whether `tensor` is the only user of its memory: no copy, view or recorded graph is left.
bool is_alone(const torch::Tensor& tensor) {
  return tensor.use_count() == 1 && tensor.storage().use_count() == 1;
}

}  // namespace

Loader::Loader(const SampleSource& source, PumpPlan plan, Device* device)
    : source_(source),
      shape_(source.shape()),
      device_(device),
      pump_(source, plan, [this](std::int64_t floats) { return allocate(floats); }) {}

Result<void> Loader::start(std::vector<std::int64_t> samples, std::int64_t epoch) {
  pump_.stop();
  std::ranges::move(filling_, std::back_inserter(idle_));
  filling_.clear();
  return pump_.start(std::move(samples), epoch);
}

Result<std::optional<Batch>> Loader::next() {
  const auto pumped = pump_.next();
  if (!pumped) return pumped.error();
  const auto& next = *pumped;
  if (!next) return std::optional<Batch>();
  const auto& samples = *next;
  DDPRUN_CHECK(!filling_.empty());
  Batch batch{
      .images = filling_.front(),
      .labels = torch::empty({std::ssize(samples)}, torch::kInt64),
      .samples = {samples.begin(), samples.end()}};
  idle_.push_back(std::move(filling_.front()));
  filling_.pop_front();
  std::ranges::transform(
      samples, batch.labels.mutable_data_ptr<std::int64_t>(), [this](std::int64_t sample) {
        return source_.label(sample);
      });
  return std::optional(std::move(batch));
}

std::span<float> Loader::allocate(std::int64_t floats) {
  const auto reusable = std::ranges::find_if(idle_, [&](const torch::Tensor& tensor) {
    return tensor.numel() == floats && is_alone(tensor);
  });
  torch::Tensor tensor;
  if (reusable != idle_.end()) {
    tensor = std::move(*reusable);
    idle_.erase(reusable);
  } else {
    // One batch that is kept, by a graph or on purpose, must not keep all later ones.
    constexpr std::size_t kIdleMax = 8;
    if (idle_.size() > kIdleMax) idle_.erase(idle_.begin());
    const std::array shape = {
        floats / shape_.floats(), shape_.channels, shape_.height, shape_.width};
    tensor = device_ == nullptr ? torch::empty(shape) : device_->make_host_tensor(shape);
  }
  auto* const first = tensor.mutable_data_ptr<float>();
  filling_.push_back(std::move(tensor));
  return {first, static_cast<std::size_t>(floats)};
}

}  // namespace ddprun
