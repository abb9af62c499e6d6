#include "trainer/data/augmented_images.hpp"

#include <fmt/format.h>

#include <utility>

namespace ddprun {

AugmentedImages::AugmentedImages(
    std::shared_ptr<const ImageSource> images, const TransformPlan& plan, std::uint64_t seed)
    : images_(std::move(images)), transform_(plan), seed_(seed) {}

AugmentedImages::AugmentedImages(
    std::shared_ptr<const ImageSource> images, const TransformPlan& plan, Draws& draws)
    : images_(std::move(images)), transform_(plan), draws_(&draws) {}

SampleShape AugmentedImages::shape() const {
  const TransformPlan& plan = transform_.plan();
  return {.channels = plan.channels, .height = plan.side, .width = plan.side};
}

Result<void> AugmentedImages::write(const SampleKey& key, std::span<float> out) const {
  const auto image = images_->read(key.sample);
  if (!image) return image.error();
  KeyedDraws keyed({.seed = seed_, .epoch = key.epoch, .sample = key.sample});
  auto const written = transform_.write(*image, draws_ != nullptr ? *draws_ : keyed, out);
  if (!written) return with_context(fmt::format("sample {}", key.sample), written.error());
  return {};
}

}  // namespace ddprun
