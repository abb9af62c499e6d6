#pragma once

#include "trainer/data/image_source.hpp"
#include "trainer/data/sample_source.hpp"
#include "trainer/data/transform.hpp"

#include <cstdint>
#include <memory>

namespace ddprun {

/// The images of a source after a transform.
class AugmentedImages final : public SampleSource {
 public:
  /// Augments with random numbers keyed by (seed, epoch, sample), which do not depend on the number
  /// of workers, the world size or restarts.
  AugmentedImages(
      std::shared_ptr<const ImageSource> images, const TransformPlan& plan, std::uint64_t seed);

  /// Takes the random numbers from `draws`, one sample after the other, as torchvision does in a
  /// DataLoader without workers. REQUIRES: only one thread calls write(), and `draws` outlives
  /// this.
  AugmentedImages(
      std::shared_ptr<const ImageSource> images, const TransformPlan& plan, Draws& draws);

  std::int64_t size() const override { return images_->size(); }
  SampleShape shape() const override;
  std::int64_t label(std::int64_t sample) const override { return images_->label(sample); }
  Result<void> write(const SampleKey& key, std::span<float> out) const override;

 private:
  // Shared: training and validation may be parts of one source under different transforms.
  std::shared_ptr<const ImageSource> images_;
  Transform transform_;
  std::uint64_t seed_ = 0;
  Draws* draws_ = nullptr;
};

}  // namespace ddprun
