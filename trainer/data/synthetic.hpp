#pragma once

#include "trainer/data/image_source.hpp"
#include "trainer/data/sample_source.hpp"

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

namespace ddprun {

/// Noise that needs no disk: `torchvision.datasets.FakeData`, byte by byte. A sample's image and
/// label come from a generator seeded with its number.
class FakeImages final : public ImageSource {
 public:
  struct Options {
    std::int64_t size = 1;  // 1,281,167, 20,000 or 50,000 in Mila's example
    ImageSize image{.height = 224, .width = 224};
    std::int64_t channels = 3;
    std::int64_t classes = 1000;
  };

  explicit FakeImages(const Options& options);

  std::int64_t size() const override { return options_.size; }
  const std::vector<std::string>& classes() const override { return classes_; }
  std::int64_t label(std::int64_t sample) const override;
  Result<Image> read(std::int64_t sample) const override;

 private:
  Options options_;
  std::vector<std::string> classes_;
  /// The label is drawn after the image's thousands of numbers, so read() keeps it; -1: not drawn.
  mutable std::vector<std::atomic<std::int32_t>> labels_;
};

/// Smooth noise for a burn-in, like that of Crusoe's vision transformer example: normal noise from
/// a generator seeded with the sample's number, smeared three times by adding 0.3 of the neighbour
/// above and then of the one to the left (with wrap-around), then shifted and scaled to mean 0 and
/// deviation 1. The label is the sample's number modulo the number of classes.
class SmearedNoise final : public SampleSource {
 public:
  struct Options {
    std::int64_t size = 500;
    std::int64_t side = 128;
    std::int64_t classes = 1000;
  };

  explicit SmearedNoise(const Options& options) : options_(options) {}

  std::int64_t size() const override { return options_.size; }
  SampleShape shape() const override;
  std::int64_t label(std::int64_t sample) const override { return sample % options_.classes; }
  Result<void> write(const SampleKey& key, std::span<float> out) const override;

 private:
  Options options_;
};

}  // namespace ddprun
