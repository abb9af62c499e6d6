#include "trainer/data/cifar_files.hpp"

#include "trainer/idx_file.hpp"

#include <fmt/format.h>

#include <array>
#include <filesystem>
#include <utility>

namespace ddprun {
namespace {

namespace fs = std::filesystem;

bool is_folder(const fs::path& path) {
  std::error_code ignored;  // an inaccessible file counts as missing
  return fs::is_directory(path, ignored);
}

bool is_file(const fs::path& path) {
  std::error_code ignored;
  return fs::is_regular_file(path, ignored);
}

Error missing(const std::string& data_dir, std::string_view stem) {
  return make_error(
      Errc::kNotFound,
      fmt::format(
          "--data-dir {0}: neither a file {1}*.bin, plain or .gz, nor {1}* of the Python version; "
          "give the directory of CIFAR-10, or its cifar-10-python.tar.gz",
          data_dir,
          stem));
}

}  // namespace

Result<CifarFiles> CifarFiles::in_directory(const std::string& directory, std::string_view stem) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator at(directory, error), end; !error && at != end; at.increment(error)) {
    names.push_back(at->path().filename());
  }
  if (error) return make_errno_error(error.value(), "--data-dir " + directory);
  CifarFiles files;
  files.place_ = directory;
  files.batches_ = choose_cifar_batches(names, stem);
  return files;
}

Result<CifarFiles> CifarFiles::in_archive(const std::string& path, std::string_view stem) {
  auto content = read_data_file(path);
  if (!content) return with_context("--data-dir", content.error());
  CifarFiles files;
  files.place_ = path;
  files.archive_ = *std::move(content);
  const auto entries = list_tar(files.archive_);
  if (!entries) return with_context("--data-dir " + path, entries.error());
  std::vector<std::string> names;
  for (const TarEntry& entry : *entries) {
    if (entry.is_directory || entry.path.ends_with(".gz")) continue;  // doubly compressed: skipped
    std::string name = entry.path.substr(entry.path.rfind('/') + 1);
    const bool is_new =
        files.members_.emplace(name, FilePart{.offset = entry.offset, .bytes = entry.bytes}).second;
    if (is_new) names.push_back(std::move(name));
  }
  files.batches_ = choose_cifar_batches(names, stem);
  return files;
}

Result<CifarFiles> CifarFiles::open(const std::string& data_dir, DataSplit split) {
  const std::string_view stem = split == DataSplit::kTrain ? "data_batch_" : "test_batch";
  const fs::path base = data_dir;
  const std::array folders = {base / "cifar-10-batches-bin", base / "cifar-10-batches-py", base};
  const std::array archives = {
      base, base / "cifar-10-binary.tar.gz", base / "cifar-10-python.tar.gz"};
  for (const fs::path& folder : folders) {
    if (!is_folder(folder)) continue;
    auto files = in_directory(folder, stem);
    if (!files || !files->batches_.names.empty()) return files;
  }
  for (const fs::path& archive : archives) {
    if (!is_file(archive)) continue;
    auto files = in_archive(archive, stem);
    if (!files || !files->batches_.names.empty()) return files;
  }
  return missing(data_dir, stem);
}

Result<std::string> CifarFiles::read(const std::string& name) const {
  if (archive_.empty()) return read_data_file(path_of(name));
  const auto found = members_.find(name);
  if (found == members_.end()) return make_error(Errc::kNotFound, path_of(name) + ": not there");
  const FilePart& part = found->second;
  return archive_.substr(
      static_cast<std::size_t>(part.offset), static_cast<std::size_t>(part.bytes));
}

}  // namespace ddprun
