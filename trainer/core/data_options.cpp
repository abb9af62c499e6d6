#include "trainer/core/data_options.hpp"

namespace ddprun {

const char* name_of(DatasetKind kind) {
  switch (kind) {
    case DatasetKind::kMnist:
      return "mnist";
    case DatasetKind::kFashionMnist:
      return "fashion-mnist";
    case DatasetKind::kCifar10:
      return "cifar10";
    case DatasetKind::kTinyImagenet:
      return "tiny-imagenet";
    case DatasetKind::kImageFolder:
      return "image-folder";
    case DatasetKind::kImagenet:
      return "imagenet";
    case DatasetKind::kFake:
      return "fake";
    case DatasetKind::kCrusoe:
      return "crusoe";
  }
  return "";
}

ImageShape image_of(DatasetKind kind, ImageShape of_model) {
  switch (kind) {
    case DatasetKind::kMnist:
    case DatasetKind::kFashionMnist:
      return {.channels = 1, .side = 28};
    case DatasetKind::kCifar10:
      return {.channels = 3, .side = 32};
    case DatasetKind::kTinyImagenet:
    case DatasetKind::kImageFolder:
    case DatasetKind::kImagenet:
    case DatasetKind::kFake:
    case DatasetKind::kCrusoe:
      return {.channels = 3, .side = of_model.channels == 3 ? of_model.side : 224};
  }
  return of_model;
}

std::optional<std::int64_t> classes_of(DatasetKind kind) {
  switch (kind) {
    case DatasetKind::kMnist:
    case DatasetKind::kFashionMnist:
    case DatasetKind::kCifar10:
      return 10;
    case DatasetKind::kFake:
    case DatasetKind::kCrusoe:
      return 1000;
    case DatasetKind::kTinyImagenet:
    case DatasetKind::kImageFolder:
    case DatasetKind::kImagenet:
      return std::nullopt;
  }
  return std::nullopt;
}

}  // namespace ddprun
