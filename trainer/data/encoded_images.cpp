#include "trainer/data/encoded_images.hpp"

#include "base/check.hpp"
#include "base/file.hpp"
#include "trainer/core/imagenet.hpp"
#include "trainer/data/image_file.hpp"
#include "trainer/data/imagenet_tars.hpp"

#include <fmt/format.h>

#include <cerrno>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include <sys/stat.h>

namespace ddprun {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kEncodedBytesMax = std::size_t{256} << 20U;
constexpr std::size_t kAnnotationBytesMax = std::size_t{256} << 20U;
constexpr int kDepthMax = 32;
constexpr char kAnnotations[] = "val_annotations.txt";

/// The content of a folder: its direct folders by name, and all files by path.
struct Listing {
  std::vector<std::string> folders;
  std::vector<std::string> files;
};

const char* folder_of(DataSplit split) {
  return split == DataSplit::kTrain ? "train" : "val";
}

/// ImageNet's own archive of the split.
fs::path imagenet_tar(const std::string& data_dir, DataSplit split) {
  return fs::path(data_dir) / (split == DataSplit::kTrain ? kImagenetTrainTar : kImagenetValTar);
}

Error missing(const std::string& data_dir, const std::string& what) {
  return make_error(
      Errc::kNotFound,
      fmt::format(
          "--data-dir {}: there is no {}; give a directory with the folders train and val, a tar "
          "archive of one, or a directory with ImageNet's archives",
          data_dir,
          what));
}

/// The folders directly in `directory`, including links to folders.
Result<std::vector<std::string>> folders_in(const fs::path& directory) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator at(directory, error), end; !error && at != end; at.increment(error)) {
    std::error_code ignored;  // a dangling link is not a folder
    if (at->is_directory(ignored)) names.push_back(at->path().filename());
  }
  if (error) return make_errno_error(error.value(), directory.string());
  return names;
}

/// All files in and below `directory`; follows links as torchvision does.
Result<Listing> list_directory(const fs::path& directory) {
  auto folders = folders_in(directory);
  if (!folders) return folders.error();
  Listing listing{.folders = *std::move(folders), .files = {}};
  constexpr auto kOptions = fs::directory_options::follow_directory_symlink;
  const std::size_t skipped = directory.string().size() + 1;
  std::error_code error;
  fs::recursive_directory_iterator at(directory, kOptions, error);
  for (const fs::recursive_directory_iterator end; !error && at != end; at.increment(error)) {
    std::error_code ignored;
    if (!at->is_directory(ignored)) listing.files.push_back(at->path().string().substr(skipped));
    if (at.depth() > kDepthMax) {
      return make_error(
          Errc::kLimit,
          fmt::format("{}: folders nest deeper than {}", at->path().string(), kDepthMax));
    }
  }
  if (error) return make_errno_error(error.value(), directory.string());
  return listing;
}

/// The rest of the archive's paths after `folder`/.
Listing list_below(const std::vector<TarEntry>& entries, const std::string& folder) {
  Listing listing;
  std::set<std::string> folders;
  for (const TarEntry& entry : entries) {
    if (!entry.path.starts_with(folder)) continue;
    const std::string rest = entry.path.substr(folder.size());
    const std::size_t slash = rest.find('/');
    if (slash != std::string::npos) folders.insert(rest.substr(0, slash));
    if (slash == std::string::npos && entry.is_directory && !rest.empty()) folders.insert(rest);
    if (!entry.is_directory) listing.files.push_back(rest);
  }
  listing.folders.assign(folders.begin(), folders.end());
  return listing;
}

/// The folder of an archive that contains `train`, with a slash at its end; empty for the root.
std::optional<std::string> root_of(const std::vector<TarEntry>& entries) {
  constexpr std::string_view kTrain = "train/";
  for (const TarEntry& entry : entries) {
    if (entry.path.starts_with(kTrain)) return std::string();
    const std::size_t slash = entry.path.find('/');
    if (slash == std::string::npos) continue;
    if (std::string_view(entry.path).substr(slash + 1).starts_with(kTrain)) {
      return entry.path.substr(0, slash + 1);
    }
  }
  return std::nullopt;
}

}  // namespace

Result<std::unique_ptr<ImageSource>> EncodedImages::open(
    const std::string& data_dir, DataSplit split) {
  std::error_code error;
  const fs::file_status status = fs::status(data_dir, error);
  if (!fs::exists(status)) {
    return make_error(
        Errc::kNotFound,
        fmt::format(
            "--data-dir {}: no such directory or archive; give one that has the folders train and "
            "val",
            data_dir));
  }
  return fs::is_directory(status) ? open_directory(data_dir, split) : open_archive(data_dir, split);
}

Result<std::unique_ptr<ImageSource>> EncodedImages::open_directory(
    const std::string& data_dir, DataSplit split) {
  const fs::path folder = fs::path(data_dir) / folder_of(split);
  std::error_code ignored;  // an inaccessible file counts as missing
  if (!fs::is_directory(folder, ignored)) {
    if (fs::exists(imagenet_tar(data_dir, split), ignored)) return open_imagenet(data_dir, split);
    return missing(data_dir, fmt::format("folder '{}' in it", folder_of(split)));
  }
  const auto listing = list_directory(folder);
  if (!listing) return with_context("--data-dir", listing.error());

  const fs::path annotations = folder / kAnnotations;
  auto labelled = [&]() -> Result<LabelledFiles> {
    if (!fs::exists(annotations, ignored)) {
      return label_by_folder(listing->folders, listing->files);
    }
    auto classes = folders_in(fs::path(data_dir) / "train");
    if (!classes) return classes.error();
    const auto text = read_file(annotations, kAnnotationBytesMax);
    if (!text) return text.error();
    return label_by_annotations(*std::move(classes), listing->files, *text);
  }();
  if (!labelled) {
    return with_context(fmt::format("--data-dir {}", folder.string()), labelled.error());
  }
  std::unique_ptr<EncodedImages> images(new EncodedImages);
  images->root_ = folder.string() + "/";
  images->classes_ = std::move(labelled->classes);
  images->files_ = std::move(labelled->files);
  return std::unique_ptr<ImageSource>(std::move(images));
}

Result<std::unique_ptr<ImageSource>> EncodedImages::open_archive(
    const std::string& data_dir, DataSplit split) {
  const std::string where = "--data-dir " + data_dir;
  auto file = open_regular(data_dir);
  if (!file) return with_context("--data-dir", file.error());
  struct stat about {};
  if (::fstat(file->get(), &about) != 0) return make_errno_error(errno, where);
  const auto entries = list_tar(file->get(), {.offset = 0, .bytes = about.st_size});
  if (!entries) return with_context(where, entries.error());
  const auto root = root_of(*entries);
  if (!root) return missing(data_dir, "folder 'train' in the archive");

  const std::string folder = fmt::format("{}{}/", *root, folder_of(split));
  std::map<std::string, const TarEntry*, std::less<>> by_path;
  for (const TarEntry& entry : *entries) {
    if (!entry.is_directory && entry.path.starts_with(folder)) by_path[entry.path] = &entry;
  }
  const Listing listing = list_below(*entries, folder);
  const auto annotations = by_path.find(folder + kAnnotations);
  auto labelled = [&]() -> Result<LabelledFiles> {
    if (annotations == by_path.end()) return label_by_folder(listing.folders, listing.files);
    const TarEntry& entry = *annotations->second;
    const auto text = read_part(file->get(), {.offset = entry.offset, .bytes = entry.bytes});
    if (!text) return text.error();
    return label_by_annotations(
        list_below(*entries, *root + "train/").folders, listing.files, *text);
  }();
  if (!labelled) return with_context(where + "/" + folder, labelled.error());

  std::unique_ptr<EncodedImages> images(new EncodedImages);
  for (const LabelledFile& sample : labelled->files) {
    const TarEntry& entry = *by_path.find(folder + sample.path)->second;
    images->extents_.push_back({.offset = entry.offset, .bytes = entry.bytes});
  }
  images->root_ = fmt::format("{}/{}", data_dir, folder);
  images->classes_ = std::move(labelled->classes);
  images->files_ = std::move(labelled->files);
  images->archive_ = *std::move(file);
  return std::unique_ptr<ImageSource>(std::move(images));
}

Result<std::unique_ptr<ImageSource>> EncodedImages::open_imagenet(
    const std::string& data_dir, DataSplit split) {
  const fs::path tar = imagenet_tar(data_dir, split);
  auto found = split == DataSplit::kTrain
                   ? open_imagenet_train(tar)
                   : open_imagenet_val(tar, fs::path(data_dir) / kImagenetDevkit);
  if (!found) return found.error();
  std::unique_ptr<EncodedImages> images(new EncodedImages);
  images->root_ = tar.string() + "/";
  images->classes_ = std::move(found->labelled.classes);
  images->files_ = std::move(found->labelled.files);
  images->archive_ = std::move(found->archive);
  images->extents_ = std::move(found->parts);
  return std::unique_ptr<ImageSource>(std::move(images));
}

std::string EncodedImages::name_of(std::int64_t sample) const {
  return root_ + files_[static_cast<std::size_t>(sample)].path;
}

std::int64_t EncodedImages::label(std::int64_t sample) const {
  DDPRUN_CHECK(sample >= 0 && sample < size());
  return files_[static_cast<std::size_t>(sample)].label;
}

Result<std::string> EncodedImages::read_encoded(std::int64_t sample) const {
  DDPRUN_CHECK(sample >= 0 && sample < size());
  if (!archive_) return read_file(name_of(sample), kEncodedBytesMax);
  const FilePart& extent = extents_[static_cast<std::size_t>(sample)];
  if (extent.bytes > static_cast<std::int64_t>(kEncodedBytesMax)) {
    return make_error(
        Errc::kLimit, fmt::format("{}: larger than {} bytes", name_of(sample), kEncodedBytesMax));
  }
  auto content = read_part(archive_.get(), extent);
  if (!content) return with_context(name_of(sample), content.error());
  return content;
}

Result<Image> EncodedImages::read(std::int64_t sample) const {
  const auto file = read_encoded(sample);
  if (!file) return file.error();
  auto image = decode_image(*file);
  if (!image) return with_context(name_of(sample), image.error());
  return image;
}

}  // namespace ddprun
