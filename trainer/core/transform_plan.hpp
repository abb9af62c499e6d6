#pragma once

// The steps from an image file to the model's input, as a value: one table row per preset.
// data/transform.cpp performs them.

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun {

/// How an image gets the size that the model needs.
enum class Fit : std::uint8_t {
  kExact,        // it must have that size
  kPaddedCrop,   // zeros around it, then a random part: RandomCrop(side, padding)
  kResizedCrop,  // a random part, resized: RandomResizedCrop(side)
  kCentreCrop,   // resized, then the middle: Resize(resize), CenterCrop(side)
};

enum class Flip : std::uint8_t { kNone, kHalf };

/// The side in a preset that keeps the size of images.
constexpr std::int64_t kOwnSide = 0;

/// From 8-bit pixels to the floats of one sample: (byte / 255 - mean) / deviation, rule P13.
struct TransformPlan {
  Fit fit = Fit::kExact;
  Flip flip = Flip::kNone;
  std::int64_t channels = 3;  // 1 or 3; a grey image is copied into all three
  std::int64_t side = 32;     // of the resulting square, in pixels
  std::int64_t padding = 0;   // for kPaddedCrop, on every side
  std::int64_t resize = 0;    // for kCentreCrop, the shorter side
  std::array<float, 3> mean{0, 0, 0};
  std::array<float, 3> deviation{1, 1, 1};

  /// Floats of one sample: (channels, side, side).
  std::int64_t floats() const { return channels * side * side; }

  bool operator==(const TransformPlan&) const = default;
};

/// The maximum side of a plan.
inline constexpr std::int64_t kSideMax = 4096;

/// The named plans: mnist, fashion-mnist, cifar10-plain, cifar10-eval, cifar10-augment,
/// imagenet-train, imagenet-eval, tiny-train and tiny-eval, where tiny is Tiny-ImageNet with
/// ImageNet's transforms. None for any other name.
std::optional<TransformPlan> transform_plan(std::string_view preset);

/// Their names, in the order above.
std::vector<std::string> transform_presets();

/// `plan` for another size; `resize` keeps its ratio of 256 to 224. REQUIRES: the plan resizes, and
/// 1 <= side <= kSideMax.
TransformPlan with_side(TransformPlan plan, std::int64_t side);

}  // namespace ddprun
