#pragma once

// What happens to an image between its file and the model, as a value: one row of a table for each
// preset. data/transform.cpp carries it out.

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun {

/// How an image gets the size that the model wants.
enum class Fit : std::uint8_t {
  kExact,        // it has that size; another one is an error
  kPaddedCrop,   // zeros all around, then a random part: RandomCrop(side, padding)
  kResizedCrop,  // a random part, resized: RandomResizedCrop(side)
  kCentreCrop,   // resized, then the middle: Resize(resize), CenterCrop(side)
};

enum class Flip : std::uint8_t { kNone, kHalf };

/// A preset's side where images stay as large as they are.
constexpr std::int64_t kOwnSide = 0;

/// From 8-bit pixels to the floats of one sample: (byte / 255 - mean) / deviation, rule P13.
struct TransformPlan {
  Fit fit = Fit::kExact;
  Flip flip = Flip::kNone;
  std::int64_t channels = 3;  // 1 or 3; a grey image is copied into all three
  std::int64_t side = 32;     // of the square that comes out, in pixels
  std::int64_t padding = 0;   // for kPaddedCrop, on every side
  std::int64_t resize = 0;    // for kCentreCrop, the shorter side
  std::array<float, 3> mean{0, 0, 0};
  std::array<float, 3> deviation{1, 1, 1};

  /// Floats of one sample: (channels, side, side).
  std::int64_t floats() const { return channels * side * side; }

  bool operator==(const TransformPlan&) const = default;
};

/// The largest side that a plan may have.
inline constexpr std::int64_t kSideMax = 4096;

/// The plans that have a name: mnist, fashion-mnist, cifar10-plain, cifar10-eval, cifar10-augment,
/// imagenet-train, imagenet-eval, tiny-train and tiny-eval, where tiny is Tiny-ImageNet with
/// ImageNet's transforms. None for another name.
std::optional<TransformPlan> transform_plan(std::string_view preset);

/// Their names, in the order above.
std::vector<std::string> transform_presets();

/// `plan` for another size: what is resized keeps the ratio of 256 to 224. REQUIRES: the plan
/// resizes, and 1 <= side <= kSideMax.
TransformPlan with_side(TransformPlan plan, std::int64_t side);

}  // namespace ddprun
