#pragma once

// The models there are: their names, what each is made for, and the numbers that make one ResNet or
// vision transformer differ from the next. trainer/model.hpp builds them.

#include "base/error.hpp"

#include <array>
#include <cstdint>
#include <optional>
#include <span>

namespace ddprun {

enum class ModelKind : std::uint8_t {
  kConvNet,
  kSimpleConvNet,
  kMyNet,
  kDummy,
  kLinear,
  kResnet18,
  kResnet34,
  kResnet50,
  kResnet101,
  kResnet152,
  kVitB16,
  kVitB32,
  kVitL16,
  kVitL32,
  kCrusoeVitTiny,
  kCrusoeVitLarge,
  kCrusoeVitHuge,
};

/// Every kind, in the order of the enumeration.
std::span<const ModelKind> all_model_kinds();

/// The flag value that names it; torchvision's own name where the model is torchvision's.
const char* name_of(ModelKind kind);

/// Square images of float32: (channels, side, side).
struct ImageShape {
  std::int64_t channels = 3;
  std::int64_t side = 224;  // pixels

  bool operator==(const ImageShape&) const = default;
};

/// The images that the kind's origin feeds it, and the classes it tells apart there.
ImageShape default_image(ModelKind kind);
std::int64_t default_classes(ModelKind kind);

/// What torchvision calls the file of its default weights for that model (its enumeration's
/// DEFAULT: of ImageNet's 1000 classes), which it downloads; nullptr where the model is not
/// torchvision's.
const char* torchvision_weights_file(ModelKind kind);

/// What a model is built from. Values out of range are refused by check_model, once.
struct ModelOptions {
  ModelKind kind = ModelKind::kConvNet;
  ImageShape image;
  std::int64_t classes = 1;
  std::optional<double> dropout;  // of a vision transformer, in [0, 1); none: the kind's own

  bool operator==(const ModelOptions&) const = default;
};

/// The kind as its origin has it.
ModelOptions default_model(ModelKind kind);

/// Fails with kInvalidArgument, saying what does not go together: an image that is too small or no
/// whole number of patches, a number out of its range, dropout for a kind where it is fixed.
Result<void> check_model(const ModelOptions& options);

/// A residual net as in He et al., arXiv 1512.03385, table 1: blocks per stage.
struct ResnetShape {
  std::array<int, 4> blocks = {};
  bool is_bottleneck = false;  // three convolutions per block, the last four times as wide
};

/// None unless `kind` is a ResNet.
std::optional<ResnetShape> resnet_shape(ModelKind kind);

/// A vision transformer as in Dosovitskiy et al., arXiv 2010.11929, table 1.
struct VitShape {
  std::int64_t patch = 16;  // side of a patch, pixels
  std::int64_t depth = 1;   // blocks
  std::int64_t heads = 1;   // divides width
  std::int64_t width = 1;   // numbers per token
  std::int64_t mlp = 1;     // numbers per token inside a block's MLP
  double dropout = 0;       // unless ModelOptions says another

  /// Of one image: its patches and the class token.
  std::int64_t tokens(std::int64_t side) const { return (side / patch) * (side / patch) + 1; }
};

/// None unless `kind` is a vision transformer, torchvision's or Crusoe's.
std::optional<VitShape> vit_shape(ModelKind kind);

}  // namespace ddprun
