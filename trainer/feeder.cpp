#include "trainer/feeder.hpp"

#include <utility>

namespace ddprun {

Result<std::optional<Batch>> Feeder::next_of_loader() {
  if (is_at_end_) return std::optional<Batch>();
  auto batch = loader_.next();
  if (batch) is_at_end_ = !batch->has_value();
  return batch;
}

Result<void> Feeder::load() {
  if (is_early_ && !std::exchange(is_begun_, true)) {
    const auto first = next_of_loader();
    if (!first) return first.error();
    const auto& batch = *first;
    if (batch) under_way_ = begin_copy(*batch);
  }
  auto next = next_of_loader();
  if (!next) return next.error();
  loaded_ = *std::move(next);
  return {};
}

std::optional<Batch> Feeder::take() {
  if (!device_.copies()) return std::exchange(loaded_, std::nullopt);
  if (!is_early_ && loaded_) {
    under_way_ = begin_copy(*loaded_);
    loaded_.reset();
  }
  device_.await_copies();  // begun a batch ago; not the one that begins here
  std::optional<Batch> batch = std::exchange(under_way_, std::nullopt);
  if (loaded_) under_way_ = begin_copy(*loaded_);
  loaded_.reset();
  return batch;
}

Result<std::optional<Batch>> Feeder::next() {
  const auto loaded = load();
  if (!loaded) return loaded.error();
  return take();
}

Batch Feeder::begin_copy(const Batch& batch) {
  return {
      .images = device_.begin_copy(batch.images),
      .labels = device_.begin_copy(batch.labels),
      .samples = batch.samples};
}

}  // namespace ddprun
