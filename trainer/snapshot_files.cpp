#include "trainer/snapshot_files.hpp"

#include "base/descriptor.hpp"
#include "base/digest.hpp"
#include "base/file.hpp"
#include "base/log.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <optional>
#include <string_view>
#include <system_error>

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace ddprun {
namespace {

constexpr mode_t kFileMode = 0644;
constexpr mode_t kDirectoryMode = 0755;
// Linux reads and writes at most 2 GiB at once. Smaller pieces stay in the cache for the checksum.
constexpr std::size_t kPieceBytes = std::size_t{1} << 20U;

std::string_view remedy_of(int errno_value) {
  switch (errno_value) {
    case ENOSPC:
    case EDQUOT:
      return "; free space there, or give another directory";
    case EACCES:
    case EPERM:
    case EROFS:
      return "; make it writable for this user, or give another directory";
    case ENOTDIR:
    case EEXIST:
      return "; a file is in the way: remove it, or give another directory";
    default:
      return "";
  }
}

/// The failure to `verb` `path`, by the errno of the last system call or the given one.
Error failed_to(std::string_view verb, const std::filesystem::path& path, int errno_value = errno) {
  Error error = make_errno_error(errno_value, fmt::format("cannot {} {}", verb, path.string()));
  error.detail += remedy_of(errno_value);
  return error;
}

std::filesystem::path parent_of(const std::filesystem::path& path) {
  return path.has_parent_path() ? path.parent_path() : ".";
}

Result<void> write_hashed(
    int file, std::span<const std::byte> bytes, Sha256& sha, const std::filesystem::path& path) {
  while (!bytes.empty()) {
    const auto piece = bytes.first(std::min(bytes.size(), kPieceBytes));
    sha.add(piece);
    const std::string_view text(reinterpret_cast<const char*>(piece.data()), piece.size());
    if (!write_all(file, text)) return failed_to("write", path);
    bytes = bytes.subspan(piece.size());
  }
  return {};
}

Descriptor open_new(const std::filesystem::path& path) {
  return Descriptor(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, kFileMode));
}

/// Syncs and closes. A network file system may report a full disk only here.
Result<void> finish_file(Descriptor file, const std::filesystem::path& path) {
  if (::fsync(file.get()) != 0) return failed_to("write", path);
  if (::close(file.release()) != 0) return failed_to("write", path);
  return {};
}

}  // namespace

Result<void> make_directories(const std::filesystem::path& path) {
  const auto make = [&path] { return ::mkdir(path.c_str(), kDirectoryMode) == 0 ? 0 : errno; };
  int why = make();
  if (why == ENOENT && path.has_relative_path() && parent_of(path) != path && path != ".") {
    auto above = make_directories(parent_of(path));
    if (!above) return above;
    why = make();
  }
  if (why == 0) return sync_entries(parent_of(path));
  if (std::error_code ignored; std::filesystem::is_directory(path, ignored)) return {};
  return failed_to("make the directory", path, why);
}

Result<void> make_new_directory(const std::filesystem::path& path) {
  if (::mkdir(path.c_str(), kDirectoryMode) != 0) return failed_to("make the directory", path);
  return {};
}

Result<SnapshotEntries> list_snapshots(const std::filesystem::path& directory) {
  const std::unique_ptr<DIR, int (*)(DIR*)> stream(::opendir(directory.c_str()), &::closedir);
  if (stream == nullptr) return failed_to("list", directory);
  std::vector<std::string> names;
  for (;;) {
    errno = 0;
    const dirent* const entry = ::readdir(stream.get());  // NOLINT(concurrency-mt-unsafe): our own
    if (entry == nullptr) break;
    names.emplace_back(static_cast<const char*>(entry->d_name));
  }
  if (errno != 0) return failed_to("list", directory);
  return sort_entries(names);
}

Result<std::string> write_new_file(
    const std::filesystem::path& path, const std::vector<std::span<const std::byte>>& pieces) {
  Descriptor file = open_new(path);
  if (!file) return failed_to("create", path);
  Sha256 sha;
  for (const auto piece : pieces) {
    auto const written = write_hashed(file.get(), piece, sha, path);
    if (!written) return written.error();
  }
  auto const finished = finish_file(std::move(file), path);
  if (!finished) return finished.error();
  return sha.finish_hex();
}

Result<bool> create_claim(const std::filesystem::path& path, std::string_view text) {
  Descriptor file = open_new(path);
  if (!file && errno == EEXIST) return false;
  if (!file) return failed_to("create", path);
  if (!write_all(file.get(), text)) return failed_to("write", path);
  auto written = finish_file(std::move(file), path);
  if (written) written = sync_entries(parent_of(path));
  if (!written) return written.error();
  return true;
}

Result<std::vector<std::byte>> read_exactly(const std::filesystem::path& path, std::size_t size) {
  const auto file = open_regular(path);
  if (!file) return file.error();
  struct stat status {};
  if (::fstat(file->get(), &status) != 0) return failed_to("read", path);
  const auto wrong_size = [&](std::size_t found) {
    return make_error(
        Errc::kCorrupt,
        fmt::format("{}: {} bytes, but the manifest says {}", path.string(), found, size));
  };
  if (std::cmp_not_equal(status.st_size, size)) {
    return wrong_size(static_cast<std::size_t>(status.st_size));
  }
  std::vector<std::byte> content(size);
  std::size_t place = 0;
  while (place < size) {
    const ssize_t got = ::read(file->get(), content.data() + place, size - place);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return failed_to("read", path);
    if (got == 0) return wrong_size(place);
    place += static_cast<std::size_t>(got);
  }
  return content;
}

Result<void> sync_entries(const std::filesystem::path& directory) {
  const Descriptor opened(::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!opened || ::fsync(opened.get()) != 0) return failed_to("sync", directory);
  return {};
}

Result<bool> move_entry(const std::filesystem::path& from, const std::filesystem::path& to) {
  if (::rename(from.c_str(), to.c_str()) == 0) return true;
  if (errno == ENOENT) return false;
  return failed_to("rename", from);
}

void remove_tree(const std::filesystem::path& path) {
  std::error_code error;
  std::filesystem::remove_all(path, error);
  if (error) spdlog::warn("cannot remove {}: {}", path.string(), error.message());
}

}  // namespace ddprun
