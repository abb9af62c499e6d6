#include "trainer/data/stored_images.hpp"

#include "base/check.hpp"
#include "base/file.hpp"
#include "base/parse.hpp"
#include "trainer/core/cifar.hpp"
#include "trainer/core/idx.hpp"
#include "trainer/idx_file.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <span>
#include <utility>

namespace ddprun {
namespace {

namespace fs = std::filesystem;

std::span<const std::uint8_t> bytes_of(const std::string& content) {
  return {reinterpret_cast<const std::uint8_t*>(content.data()), content.size()};
}

Result<std::string> read_idx(const std::string& data_dir, const std::string& stem) {
  const auto path = find_data_file(data_dir, stem);
  if (!path) {
    return make_error(
        Errc::kNotFound,
        path.error().detail + "; name the directory of the IDX files with --data-dir");
  }
  return read_data_file(*path);
}

/// The files of a split, a plain one before its gzipped twin.
Result<std::vector<fs::path>> cifar_files(const fs::path& directory, const std::string& stem) {
  std::vector<fs::path> found;
  std::error_code error;
  for (fs::directory_iterator at(directory, error), end; !error && at != end; at.increment(error)) {
    const std::string name = at->path().filename();
    const bool is_data = name.ends_with(".bin") || name.ends_with(".bin.gz");
    if (name.starts_with(stem) && is_data) found.push_back(at->path());
  }
  if (error) return make_errno_error(error.value(), "--data-dir " + directory.string());
  std::ranges::sort(found);
  std::erase_if(found, [&](const fs::path& path) {
    return path.extension() == ".gz" &&
           std::ranges::binary_search(found, fs::path(path).replace_extension());
  });
  return found;
}

/// CIFAR's ten names, or numbers where the file is missing or another one.
std::vector<std::string> cifar_classes(const fs::path& directory) {
  constexpr std::size_t kNamesBytesMax = 4096;
  const auto text = read_file(directory / "batches.meta.txt", kNamesBytesMax);
  std::vector<std::string> names;
  if (text) {
    for (const std::string_view line : split(*text, '\n')) {
      if (!trim(line).empty()) names.emplace_back(trim(line));
    }
  }
  return std::ssize(names) == kCifarClasses ? names : numbered_classes(kCifarClasses);
}

}  // namespace

Result<std::unique_ptr<ImageSource>> StoredImages::open_idx(
    const std::string& data_dir, DataSplit split) {
  constexpr int kClasses = 10;
  const std::string stem = split == DataSplit::kTrain ? "train" : "t10k";
  const auto image_file = read_idx(data_dir, stem + "-images-idx3-ubyte");
  if (!image_file) return image_file.error();
  const auto label_file = read_idx(data_dir, stem + "-labels-idx1-ubyte");
  if (!label_file) return label_file.error();
  const std::string where = fmt::format("--data-dir {}: the IDX files '{}'", data_dir, stem);
  const auto images = parse_idx_images(std::as_bytes(std::span(*image_file)));
  if (!images) return with_context(where, images.error());
  const auto labels = parse_idx_labels(std::as_bytes(std::span(*label_file)), kClasses);
  if (!labels) return with_context(where, labels.error());
  if (images->count != labels->count) {
    return make_error(
        Errc::kCorrupt,
        fmt::format("{}: {} images with {} labels", where, images->count, labels->count));
  }

  std::unique_ptr<StoredImages> stored(new StoredImages);
  stored->image_ = {.height = images->rows, .width = images->columns};
  stored->classes_ = numbered_classes(kClasses);
  const auto header = image_file->size() - images->pixels.size();
  const auto pixels = bytes_of(*image_file).subspan(header);
  stored->pixels_.assign(pixels.begin(), pixels.end());
  const auto classes = bytes_of(*label_file).subspan(label_file->size() - labels->classes.size());
  stored->labels_.assign(classes.begin(), classes.end());
  return std::unique_ptr<ImageSource>(std::move(stored));
}

Result<std::unique_ptr<ImageSource>> StoredImages::open_cifar10(
    const std::string& data_dir, DataSplit split) {
  const std::string stem = split == DataSplit::kTrain ? "data_batch_" : "test_batch";
  fs::path directory = data_dir;
  std::error_code ignored;  // what cannot be looked at is not there
  const fs::path usual = directory / "cifar-10-batches-bin";
  if (fs::is_directory(usual, ignored)) directory = usual;
  const auto files = cifar_files(directory, stem);
  if (!files) return files.error();
  if (files->empty()) {
    return make_error(
        Errc::kNotFound,
        fmt::format(
            "--data-dir {}: no file {}*.bin, plain or .gz; name the directory of CIFAR-10's binary "
            "version",
            data_dir,
            stem));
  }

  std::unique_ptr<StoredImages> stored(new StoredImages);
  stored->image_ = {.height = kCifarSide, .width = kCifarSide};
  stored->channels_ = 3;
  stored->classes_ = cifar_classes(directory);
  for (const fs::path& path : *files) {
    const auto content = read_data_file(path);
    if (!content) return content.error();
    const auto records = parse_cifar(bytes_of(*content));
    if (!records) return with_context(path.string(), records.error());
    for (std::int64_t record = 0; record < records->count(); ++record) {
      const std::span<const std::uint8_t> pixels = records->pixels(record);
      stored->labels_.push_back(records->label(record));
      stored->pixels_.insert(stored->pixels_.end(), pixels.begin(), pixels.end());
    }
  }
  return std::unique_ptr<ImageSource>(std::move(stored));
}

std::int64_t StoredImages::label(std::int64_t sample) const {
  DDPRUN_CHECK(sample >= 0 && sample < size());
  return labels_[static_cast<std::size_t>(sample)];
}

Result<Image> StoredImages::read(std::int64_t sample) const {
  DDPRUN_CHECK(sample >= 0 && sample < size());
  const std::int64_t bytes = channels_ * image_.height * image_.width;
  const auto first = pixels_.begin() + sample * bytes;
  return Image{
      .size = image_,
      .channels = channels_,
      .layout = Image::Layout::kPlanar,
      .pixels = std::vector<std::uint8_t>(first, first + bytes)};
}

}  // namespace ddprun
