#include "trainer/core/transform_plan.hpp"

#include "base/check.hpp"

#include <algorithm>

namespace ddprun {
namespace {

constexpr std::int64_t kImagenetSide = 224;
constexpr std::int64_t kImagenetResize = 256;

struct Preset {
  std::string_view name;
  TransformPlan plan;
};

constexpr TransformPlan grey(float mean, float deviation) {
  return {
      .channels = 1,
      .side = 28,
      .mean = {mean, mean, mean},
      .deviation = {deviation, deviation, deviation}};
}

constexpr TransformPlan imagenet(Fit fit, Flip flip) {
  return {
      .fit = fit,
      .flip = flip,
      .side = kImagenetSide,
      .resize = fit == Fit::kCentreCrop ? kImagenetResize : 0,
      .mean = {0.485F, 0.456F, 0.406F},
      .deviation = {0.229F, 0.224F, 0.225F}};
}

constexpr TransformPlan cifar10(Fit fit, Flip flip, std::int64_t padding) {
  return {
      .fit = fit,
      .flip = flip,
      .padding = padding,
      .mean = {0.4914F, 0.4822F, 0.4465F},
      .deviation = {0.2023F, 0.1994F, 0.2010F}};
}

// NOLINTBEGIN(modernize-use-designated-initializers): a table; the columns are those of Preset
constexpr std::array<Preset, 10> kPresets{{
    {"plain", TransformPlan{.side = kOwnSide}},
    {"mnist", grey(0.1307F, 0.3081F)},
    {"fashion-mnist", grey(0.2860F, 0.3530F)},
    {"cifar10-plain", TransformPlan{}},
    {"cifar10-eval", cifar10(Fit::kExact, Flip::kNone, 0)},
    {"cifar10-augment", cifar10(Fit::kPaddedCrop, Flip::kHalf, 4)},
    {"imagenet-train", imagenet(Fit::kResizedCrop, Flip::kHalf)},
    {"imagenet-eval", imagenet(Fit::kCentreCrop, Flip::kNone)},
    {"tiny-train", imagenet(Fit::kResizedCrop, Flip::kHalf)},
    {"tiny-eval", imagenet(Fit::kCentreCrop, Flip::kNone)},
}};
// NOLINTEND(modernize-use-designated-initializers)

}  // namespace

std::optional<TransformPlan> transform_plan(std::string_view preset) {
  const auto* const found = std::ranges::find(kPresets, preset, &Preset::name);
  if (found == kPresets.end()) return std::nullopt;
  return found->plan;
}

std::vector<std::string> transform_presets() {
  std::vector<std::string> names;
  names.reserve(kPresets.size());
  for (const Preset& preset : kPresets) {
    names.emplace_back(preset.name);
  }
  return names;
}

TransformPlan with_side(TransformPlan plan, std::int64_t side) {
  DDPRUN_CHECK(plan.fit == Fit::kResizedCrop || plan.fit == Fit::kCentreCrop);
  DDPRUN_CHECK(side >= 1 && side <= kSideMax);
  if (plan.fit == Fit::kCentreCrop) plan.resize = side * kImagenetResize / kImagenetSide;
  plan.side = side;
  return plan;
}

}  // namespace ddprun
