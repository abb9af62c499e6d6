#pragma once

#include "trainer/data/batch_pump.hpp"
#include "trainer/device.hpp"

#include <torch/torch.h>

#include <deque>
#include <optional>
#include <vector>

namespace ddprun {

/// What one pass sees.
struct Batch {
  torch::Tensor images;               // (N, channels, side, side) float32
  torch::Tensor labels;               // (N) int64
  std::vector<std::int64_t> samples;  // their numbers, (N)

  std::int64_t size() const { return std::ssize(samples); }
};

/// The batches of one epoch after the other, in order, made by threads while the model trains.
class Loader {
 public:
  /// Images lie in memory that `device` copies from quickly; null: in any. REQUIRES: as for
  /// BatchPump; the device outlives it.
  Loader(const SampleSource& source, PumpPlan plan, Device* device = nullptr);

  /// Begins an epoch of these samples, whatever is left of the one before. The threads start with
  /// the first, and stay, as does the memory of the batches. Fails with kIo. REQUIRES: all samples
  /// lie in the source.
  Result<void> start(std::vector<std::int64_t> samples, std::int64_t epoch = 0);

  /// The next batch; none behind the last of the epoch. Fails with what is wrong with a sample,
  /// naming its file.
  ///
  /// Its memory is used for a later batch only when nobody holds the tensor, a view of it or a
  /// graph that was recorded with it. Who copies asynchronously to a device holds it until the copy
  /// is done.
  Result<std::optional<Batch>> next();

 private:
  std::span<float> allocate(std::int64_t floats);

  const SampleSource& source_;
  SampleShape shape_;
  Device* device_;
  std::vector<torch::Tensor> idle_;    // delivered before; free when nobody else holds them
  std::deque<torch::Tensor> filling_;  // in order of delivery
  BatchPump pump_;                     // last: its threads end before the memory does
};

}  // namespace ddprun
