#pragma once

// The available models: their names, their intended data, and the numbers that distinguish one
// ResNet or vision transformer from the next. trainer/model.hpp builds them.

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

/// The flag value that names it; for torchvision's models, torchvision's own name.
const char* name_of(ModelKind kind);

/// Square images of float32: (channels, side, side).
struct ImageShape {
  std::int64_t channels = 3;
  std::int64_t side = 224;  // pixels

  bool operator==(const ImageShape&) const = default;
};

/// The images and the number of classes of the kind's origin.
ImageShape default_image(ModelKind kind);
std::int64_t default_classes(ModelKind kind);

/// The name of torchvision's file of default weights for that model (its enumeration's DEFAULT, for
/// ImageNet's 1000 classes), which torchvision downloads; nullptr if the model is not
/// torchvision's.
const char* torchvision_weights_file(ModelKind kind);

/// The parameters of a model. check_model() refuses values out of range, once.
struct ModelOptions {
  ModelKind kind = ModelKind::kConvNet;
  ImageShape image;
  std::int64_t classes = 1;
  std::optional<double> dropout;  // of a vision transformer, in [0, 1); none: the kind's own

  bool operator==(const ModelOptions&) const = default;
};

/// The kind as its origin defines it.
ModelOptions default_model(ModelKind kind);

/// Fails with kInvalidArgument, naming the conflict: an image that is too small or not a whole
/// number of patches, a number out of its range, or dropout for a kind in which it is fixed.
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
  double dropout = 0;       // unless ModelOptions has another value

  /// The tokens of one image: its patches and the class token.
  std::int64_t tokens(std::int64_t side) const { return (side / patch) * (side / patch) + 1; }
};

/// None unless `kind` is a vision transformer, torchvision's or Crusoe's.
std::optional<VitShape> vit_shape(ModelKind kind);

}  // namespace ddprun
