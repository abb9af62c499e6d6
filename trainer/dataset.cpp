#include "trainer/dataset.hpp"

#include "base/check.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

namespace ddprun {
namespace {

/// Mean and deviation of all training pixels, as the data set's users publish them.
struct Normalisation {
  double mean;
  double deviation;
};

Normalisation normalisation_of(DatasetKind kind) {
  switch (kind) {
    case DatasetKind::kMnist:
      return {.mean = 0.1307, .deviation = 0.3081};
    case DatasetKind::kFashionMnist:
      return {.mean = 0.2860, .deviation = 0.3530};
  }
  return {.mean = 0, .deviation = 1};
}

Result<std::string> read_named(const std::string& directory, const std::string& stem) {
  const auto path = find_data_file(directory, stem);
  if (!path) {
    return make_error(
        Errc::kNotFound,
        path.error().detail +
            "; name the directory of the IDX files with --data-dir (Debian's package "
            "dataset-fashion-mnist puts them into /usr/share/datasets/fashion-mnist)");
  }
  return read_data_file(*path);
}

}  // namespace

Result<std::unique_ptr<ImageDataset>> ImageDataset::open(
    const std::string& directory,
    DatasetKind kind,
    Split split,
    std::optional<std::int64_t> limit) {
  const std::string stem = split == Split::kTrain ? "train" : "t10k";
  const std::string image_name = stem + "-images-idx3-ubyte";
  const std::string label_name = stem + "-labels-idx1-ubyte";
  std::unique_ptr<ImageDataset> data(new ImageDataset);

  auto file = read_named(directory, image_name);
  if (!file) return file.error();
  data->image_file_ = *std::move(file);
  file = read_named(directory, label_name);
  if (!file) return file.error();
  data->label_file_ = *std::move(file);

  const auto images = parse_idx_images(std::as_bytes(std::span(data->image_file_)));
  if (!images) return with_context(directory + "/" + image_name, images.error());
  const auto labels = parse_idx_labels(std::as_bytes(std::span(data->label_file_)), kClasses);
  if (!labels) return with_context(directory + "/" + label_name, labels.error());
  if (images->count != labels->count || images->rows != kSide || images->columns != kSide) {
    return make_error(
        Errc::kCorrupt,
        fmt::format(
            "{}/{}: {} images of {} x {} with {} labels, expected {} x {} and as many labels",
            directory,
            image_name,
            images->count,
            images->rows,
            images->columns,
            labels->count,
            kSide,
            kSide));
  }

  data->images_ = *images;
  data->labels_ = *labels;
  data->size_ = std::min(limit.value_or(images->count), images->count);
  const auto [mean, deviation] = normalisation_of(kind);
  data->mean_ = mean;
  data->deviation_ = deviation;
  return data;
}

Batch ImageDataset::batch(std::span<const std::int64_t> samples) const {
  constexpr std::size_t kImageBytes = kSide * kSide;
  const std::int64_t n = std::ssize(samples);
  const torch::Tensor bytes = torch::empty({n, 1, kSide, kSide}, torch::kUInt8);
  const torch::Tensor labels = torch::empty({n}, torch::kInt64);
  auto* pixel = bytes.mutable_data_ptr<std::uint8_t>();
  auto* label = labels.mutable_data_ptr<std::int64_t>();
  for (const std::int64_t sample : samples) {
    DDPRUN_CHECK(sample >= 0 && sample < size_);
    const auto at = static_cast<std::size_t>(sample);
    std::memcpy(pixel, images_.pixels.data() + at * kImageBytes, kImageBytes);
    pixel += kImageBytes;
    *label++ = std::to_integer<std::int64_t>(labels_.classes[at]);
  }
  // P13: three operations in this order; a multiplication by 1/255 would round differently.
  return {
      .images = bytes.to(torch::kFloat32).div_(255).sub_(mean_).div_(deviation_), .labels = labels};
}

}  // namespace ddprun
