#pragma once

#include "trainer/data/batch_pump.hpp"
#include "trainer/device.hpp"

#include <torch/torch.h>

#include <deque>
#include <optional>
#include <vector>

namespace ddprun {

/// The input of one pass.
struct Batch {
  torch::Tensor images;               // (N, channels, side, side) float32
  torch::Tensor labels;               // (N) int64
  std::vector<std::int64_t> samples;  // their numbers, (N)

  std::int64_t size() const { return std::ssize(samples); }
};

/// The batches of one epoch after the other, in order, made by threads while the model trains.
class Loader {
 public:
  /// Images are in memory that `device` copies from quickly; null: in any memory. REQUIRES: as for
  /// BatchPump; the device outlives it.
  Loader(const SampleSource& source, PumpPlan plan, Device* device = nullptr);

  /// Begins an epoch of these samples, whatever is left of the previous one. The threads start with
  /// the first epoch, and stay, as does the memory of the batches. Fails with kIo. REQUIRES: all
  /// samples are in the source.
  Result<void> start(std::vector<std::int64_t> samples, std::int64_t epoch = 0);

  /// The next batch; none after the last of the epoch. Fails with the error of a sample, naming its
  /// file.
  ///
  /// Its memory is reused for a later batch only after nothing holds the tensor, a view of it or a
  /// graph recorded with it. A caller that copies it asynchronously to a device must hold it until
  /// the copy is done.
  Result<std::optional<Batch>> next();

 private:
  std::span<float> allocate(std::int64_t floats);

  const SampleSource& source_;
  SampleShape shape_;
  Device* device_;
  std::vector<torch::Tensor> idle_;    // delivered before; free if nothing else holds them
  std::deque<torch::Tensor> filling_;  // in order of delivery
  BatchPump pump_;                     // last: its threads end before the memory does
};

}  // namespace ddprun
