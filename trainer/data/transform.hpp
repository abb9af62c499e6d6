#pragma once

#include "base/error.hpp"
#include "trainer/core/transform_plan.hpp"
#include "trainer/data/image.hpp"

#include <array>
#include <cstdint>
#include <span>

namespace ddprun {

/// Carries out a plan: from the bytes of an image to the floats of the model's input, without a
/// copy in between. The bits equal those of torchvision on PIL images followed by ToTensor and
/// Normalize. May be used from several threads at once.
class Transform {
 public:
  explicit Transform(const TransformPlan& plan);

  const TransformPlan& plan() const { return plan_; }

  /// Writes (channels, side, side) floats. Fails with kInvalidArgument if the image has another
  /// size, or more channels than the plan expects. REQUIRES: out.size() == plan().floats().
  Result<void> write(const Image& image, Draws& draws, std::span<float> out) const;

 private:
  struct Resizing;

  void copy(const Image& image, const Crop& part, bool is_flipped, float* out) const;
  void resize(
      const Image& image, const Crop& part, ImageSize size, bool is_flipped, float* out) const;
  void resize_width_first(const Resizing& how, float* out) const;
  void resize_height_first(const Resizing& how, float* out) const;
  Result<void> resize_and_cut(const Image& image, Draws& draws, float* out) const;
  void put_row(
      const std::uint8_t* pixels, std::int64_t channels, bool is_flipped, float* out) const;

  TransformPlan plan_;
  /// The result for each byte, by channel: there are only 256, so P13's divisions are done once.
  std::array<std::array<float, 256>, 3> values_{};
};

}  // namespace ddprun
