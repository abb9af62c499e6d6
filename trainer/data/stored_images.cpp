#include "trainer/data/stored_images.hpp"

#include "base/check.hpp"
#include "base/parse.hpp"
#include "trainer/core/cifar_pickle.hpp"
#include "trainer/core/idx.hpp"
#include "trainer/data/cifar_files.hpp"
#include "trainer/idx_file.hpp"

#include <fmt/format.h>

#include <span>
#include <utility>

namespace ddprun {
namespace {

std::span<const std::uint8_t> bytes_of(const std::string& content) {
  return {reinterpret_cast<const std::uint8_t*>(content.data()), content.size()};
}

struct IdxFile {
  std::string path;
  std::string content;
};

Result<IdxFile> read_idx(const std::string& data_dir, const std::string& stem) {
  const auto path = find_data_file(data_dir, stem);
  if (!path) {
    return make_error(
        Errc::kNotFound,
        path.error().detail +
            "; give --data-dir the directory of the IDX files, or the one with torchvision's "
            "MNIST/raw "
            "or FashionMNIST/raw");
  }
  auto content = read_data_file(*path);
  if (!content) return content.error();
  return IdxFile{.path = path->string(), .content = *std::move(content)};
}

std::vector<std::string> lines_of(std::string_view text) {
  std::vector<std::string> lines;
  for (const std::string_view line : split(text, '\n')) {
    if (!trim(line).empty()) lines.emplace_back(trim(line));
  }
  return lines;
}

/// CIFAR's ten names, or numbers if the file is missing or has other content.
std::vector<std::string> cifar_classes(const CifarFiles& files) {
  const bool is_pickled = files.batches().version == CifarBatches::Version::kPython;
  const auto content = files.read(is_pickled ? "batches.meta" : "batches.meta.txt");
  if (!content) return numbered_classes(kCifarClasses);
  const auto names = is_pickled ? parse_cifar_names(*content)
                                : Result<std::vector<std::string>>(lines_of(*content));
  const bool is_whole = names && std::ssize(*names) == kCifarClasses;
  return is_whole ? *names : numbered_classes(kCifarClasses);
}

/// The images of one file, of either version.
Result<CifarBatch> parse_batch(CifarBatches::Version version, const std::string& content) {
  if (version == CifarBatches::Version::kPython) return parse_cifar_pickle(content);
  const auto records = parse_cifar(bytes_of(content));
  if (!records) return records.error();
  CifarBatch batch;
  for (std::int64_t record = 0; record < records->count(); ++record) {
    const std::span<const std::uint8_t> pixels = records->pixels(record);
    batch.labels.push_back(records->label(record));
    batch.pixels.insert(batch.pixels.end(), pixels.begin(), pixels.end());
  }
  return batch;
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
  const auto images = parse_idx_images(std::as_bytes(std::span(image_file->content)));
  if (!images) return with_context(image_file->path, images.error());
  const auto labels = parse_idx_labels(std::as_bytes(std::span(label_file->content)), kClasses);
  if (!labels) return with_context(label_file->path, labels.error());
  if (images->count != labels->count) {
    return make_error(
        Errc::kCorrupt,
        fmt::format(
            "{} has {} images, but {} has {} labels",
            image_file->path,
            images->count,
            label_file->path,
            labels->count));
  }

  std::unique_ptr<StoredImages> stored(new StoredImages);
  stored->image_ = {.height = images->rows, .width = images->columns};
  stored->classes_ = numbered_classes(kClasses);
  const auto header = image_file->content.size() - images->pixels.size();
  const auto pixels = bytes_of(image_file->content).subspan(header);
  stored->pixels_.assign(pixels.begin(), pixels.end());
  const auto classes =
      bytes_of(label_file->content).subspan(label_file->content.size() - labels->classes.size());
  stored->labels_.assign(classes.begin(), classes.end());
  return std::unique_ptr<ImageSource>(std::move(stored));
}

Result<std::unique_ptr<ImageSource>> StoredImages::open_cifar10(
    const std::string& data_dir, DataSplit split) {
  const auto files = CifarFiles::open(data_dir, split);
  if (!files) return files.error();
  std::unique_ptr<StoredImages> stored(new StoredImages);
  stored->image_ = {.height = kCifarSide, .width = kCifarSide};
  stored->channels_ = 3;
  stored->classes_ = cifar_classes(*files);
  for (const std::string& name : files->batches().names) {
    const auto content = files->read(name);
    if (!content) return content.error();
    const auto batch = parse_batch(files->batches().version, *content);
    if (!batch) return with_context(files->path_of(name), batch.error());
    stored->labels_.insert(stored->labels_.end(), batch->labels.begin(), batch->labels.end());
    stored->pixels_.insert(stored->pixels_.end(), batch->pixels.begin(), batch->pixels.end());
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
