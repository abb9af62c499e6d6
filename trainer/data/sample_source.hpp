#pragma once

#include "base/error.hpp"

#include <cstdint>
#include <span>

namespace ddprun {

/// The floats of one sample: (channels, height, width).
struct SampleShape {
  std::int64_t channels = 1;
  std::int64_t height = 1;
  std::int64_t width = 1;

  std::int64_t floats() const { return channels * height * width; }
  bool operator==(const SampleShape&) const = default;
};

/// One use of one sample; an augmentation may differ from epoch to epoch.
struct SampleKey {
  std::int64_t sample = 0;
  std::int64_t epoch = 0;
};

/// Samples in the form of the model's input; a Loader makes batches of them.
class SampleSource {
 public:
  virtual ~SampleSource() = default;
  SampleSource(const SampleSource&) = delete;
  SampleSource& operator=(const SampleSource&) = delete;

  virtual std::int64_t size() const = 0;
  virtual SampleShape shape() const = 0;

  /// REQUIRES: 0 <= sample < size().
  virtual std::int64_t label(std::int64_t sample) const = 0;

  /// Writes the sample's floats, from any thread. Fails with an error that names the sample's file.
  /// REQUIRES: 0 <= key.sample < size() and out.size() == shape().floats().
  virtual Result<void> write(const SampleKey& key, std::span<float> out) const = 0;

 protected:
  SampleSource() = default;
};

}  // namespace ddprun
