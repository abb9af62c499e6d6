#include "trainer/core/model_kind.hpp"

#include "base/check.hpp"

#include <fmt/format.h>

#include <cstddef>

namespace ddprun {
namespace {

constexpr std::int64_t kChannelsMax = 64;
constexpr std::int64_t kSideMax = 4096;
constexpr std::int64_t kClassesMax = 1'000'000;
// Two 3x3 convolutions without padding and a pooling by two leave nothing of a smaller image.
constexpr std::int64_t kConvNetSideMin = 6;

constexpr ImageShape kMnist = {.channels = 1, .side = 28};
constexpr ImageShape kImagenet = {.channels = 3, .side = 224};

struct Row {
  ModelKind kind = ModelKind::kConvNet;
  const char* name = nullptr;
  ImageShape image;
  std::int64_t classes = 0;
  const char* weights_file = nullptr;  // torchvision's name
};

// clang-format off
// NOLINTBEGIN(modernize-use-designated-initializers): a table; the columns are those of Row
constexpr std::array kRows = {
    Row{ModelKind::kConvNet,        "convnet",          kMnist,                      10},
    Row{ModelKind::kSimpleConvNet,  "simple_conv_net",  kMnist,                      10},
    Row{ModelKind::kMyNet,          "my_net",           kMnist,                      10},
    Row{ModelKind::kDummy,          "dummy",            kImagenet,                   1000},
    Row{ModelKind::kLinear,         "linear",           kMnist,                      10},
    Row{ModelKind::kResnet18,       "resnet18",         kImagenet,                   1000,  "resnet18-f37072fd.pth"},
    Row{ModelKind::kResnet34,       "resnet34",         kImagenet,                   1000,  "resnet34-b627a593.pth"},
    Row{ModelKind::kResnet50,       "resnet50",         kImagenet,                   1000,  "resnet50-11ad3fa6.pth"},
    Row{ModelKind::kResnet101,      "resnet101",        kImagenet,                   1000,  "resnet101-cd907fc2.pth"},
    Row{ModelKind::kResnet152,      "resnet152",        kImagenet,                   1000,  "resnet152-f82ba261.pth"},
    Row{ModelKind::kVitB16,         "vit_b_16",         kImagenet,                   1000,  "vit_b_16-c867db91.pth"},
    Row{ModelKind::kVitB32,         "vit_b_32",         kImagenet,                   1000,  "vit_b_32-d86f8d99.pth"},
    Row{ModelKind::kVitL16,         "vit_l_16",         kImagenet,                   1000,  "vit_l_16-852ce7e3.pth"},
    Row{ModelKind::kVitL32,         "vit_l_32",         kImagenet,                   1000,  "vit_l_32-c7638314.pth"},
    Row{ModelKind::kCrusoeVitTiny,  "crusoe_vit_tiny",  {.channels = 3, .side = 32},  10},
    Row{ModelKind::kCrusoeVitLarge, "crusoe_vit_large", {.channels = 3, .side = 128}, 1000},
    Row{ModelKind::kCrusoeVitHuge,  "crusoe_vit_huge",  {.channels = 3, .side = 128}, 1000},
};
// NOLINTEND(modernize-use-designated-initializers)
// clang-format on

constexpr auto kKinds = [] {
  std::array<ModelKind, kRows.size()> kinds{};
  for (std::size_t i = 0; i < kRows.size(); ++i) {
    kinds[i] = kRows[i].kind;
  }
  return kinds;
}();

const Row& row_of(ModelKind kind) {
  const auto index = static_cast<std::size_t>(kind);
  DDPRUN_CHECK(index < kRows.size() && kRows[index].kind == kind);
  return kRows[index];
}

bool is_conv_net(ModelKind kind) {
  return kind == ModelKind::kConvNet || kind == ModelKind::kSimpleConvNet ||
         kind == ModelKind::kMyNet;
}

Error refused(const ModelOptions& options, const std::string& why) {
  return make_error(
      Errc::kInvalidArgument, fmt::format("model {}: {}", name_of(options.kind), why));
}

Result<void> check_range(
    const ModelOptions& options, const char* what, std::int64_t value, std::int64_t max) {
  if (value >= 1 && value <= max) return {};
  return refused(options, fmt::format("{} {} is not in 1..{}", what, value, max));
}

}  // namespace

std::span<const ModelKind> all_model_kinds() {
  return kKinds;
}

const char* name_of(ModelKind kind) {
  return row_of(kind).name;
}

ImageShape default_image(ModelKind kind) {
  return row_of(kind).image;
}

std::int64_t default_classes(ModelKind kind) {
  return row_of(kind).classes;
}

const char* torchvision_weights_file(ModelKind kind) {
  return row_of(kind).weights_file;
}

ModelOptions default_model(ModelKind kind) {
  return {
      .kind = kind,
      .image = default_image(kind),
      .classes = default_classes(kind),
      .dropout = std::nullopt};
}

Result<void> check_model(const ModelOptions& options) {
  const std::int64_t side = options.image.side;
  if (auto ok = check_range(options, "channels", options.image.channels, kChannelsMax); !ok) {
    return ok;
  }
  if (auto ok = check_range(options, "image side", side, kSideMax); !ok) return ok;
  if (auto ok = check_range(options, "classes", options.classes, kClassesMax); !ok) return ok;

  const auto vit = vit_shape(options.kind);
  if (vit && side % vit->patch != 0) {
    return refused(
        options,
        fmt::format("image side {} is not a multiple of its patch, {} pixels", side, vit->patch));
  }
  if (is_conv_net(options.kind) && side < kConvNetSideMin) {
    return refused(
        options, fmt::format("image side {} is less than {} pixels", side, kConvNetSideMin));
  }
  if (options.dropout && !vit) return refused(options, "its dropout is fixed");
  const bool is_share = options.dropout && *options.dropout >= 0 && *options.dropout < 1;
  if (options.dropout && !is_share) {
    return refused(options, fmt::format("dropout {} is not in [0, 1)", *options.dropout));
  }
  return {};
}

std::optional<ResnetShape> resnet_shape(ModelKind kind) {
  switch (kind) {
    case ModelKind::kResnet18:
      return ResnetShape{.blocks = {2, 2, 2, 2}, .is_bottleneck = false};
    case ModelKind::kResnet34:
      return ResnetShape{.blocks = {3, 4, 6, 3}, .is_bottleneck = false};
    case ModelKind::kResnet50:
      return ResnetShape{.blocks = {3, 4, 6, 3}, .is_bottleneck = true};
    case ModelKind::kResnet101:
      return ResnetShape{.blocks = {3, 4, 23, 3}, .is_bottleneck = true};
    case ModelKind::kResnet152:
      return ResnetShape{.blocks = {3, 8, 36, 3}, .is_bottleneck = true};
    default:
      return std::nullopt;
  }
}

std::optional<VitShape> vit_shape(ModelKind kind) {
  constexpr VitShape kBase = {
      .patch = 16, .depth = 12, .heads = 12, .width = 768, .mlp = 3072, .dropout = 0};
  constexpr VitShape kLarge = {
      .patch = 16, .depth = 24, .heads = 16, .width = 1024, .mlp = 4096, .dropout = 0};
  constexpr double kCrusoesDropout = 0.1;
  VitShape shape = kLarge;
  switch (kind) {
    case ModelKind::kVitB16:
      return kBase;
    case ModelKind::kVitB32:
      shape = kBase;
      shape.patch = 32;
      return shape;
    case ModelKind::kVitL16:
      return kLarge;
    case ModelKind::kVitL32:
      shape.patch = 32;
      return shape;
    case ModelKind::kCrusoeVitTiny:
      return VitShape{
          .patch = 16, .depth = 2, .heads = 4, .width = 64, .mlp = 128, .dropout = kCrusoesDropout};
    case ModelKind::kCrusoeVitLarge:
      shape.dropout = kCrusoesDropout;
      return shape;
    case ModelKind::kCrusoeVitHuge:
      return VitShape{
          .patch = 16,
          .depth = 32,
          .heads = 16,
          .width = 1280,
          .mlp = 5120,
          .dropout = kCrusoesDropout};
    default:
      return std::nullopt;
  }
}

}  // namespace ddprun
