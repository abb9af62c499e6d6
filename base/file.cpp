#include "base/file.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <utility>

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

namespace ddprun {
namespace {

constexpr std::size_t kChunkBytesMin = 4'096;  // most files of /proc are no larger
constexpr std::size_t kChunkBytes = 65'536;
constexpr mode_t kMode = 0644;

/// `sync`: fsync or syncfs.
Result<void> synced(const std::filesystem::path& directory, int (*sync)(int)) {
  const Descriptor opened = open_file(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (!opened || sync(opened.get()) != 0) return make_errno_error(errno, directory.string());
  return {};
}

/// `name` is the file's name in messages.
Result<void> write_synced(
    const std::filesystem::path& path,
    const std::vector<std::string_view>& pieces,
    const std::string& name) {
  const Descriptor file = open_file(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, kMode);
  if (!file) return make_errno_error(errno, name);
  bool written = true;
  for (const std::string_view piece : pieces) {
    written = written && write_all(file.get(), piece);
  }
  written = written && ::fsync(file.get()) == 0;
  if (!written) return make_errno_error(errno, name);
  return {};
}

}  // namespace

Result<Descriptor> open_regular(const std::filesystem::path& path) {
  // Without O_NONBLOCK, opening a FIFO blocks until another process writes to it.
  Descriptor file = open_file(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  struct stat about {};
  if (!file || ::fstat(file.get(), &about) != 0) return make_errno_error(errno, path.string());
  if (S_ISREG(about.st_mode)) return {std::move(file)};
  return make_error(Errc::kIo, fmt::format("{}: not a regular file", path.string()));
}

Result<std::string> read_file(const std::filesystem::path& path, std::size_t bytes_max) {
  const auto file = open_regular(path);
  if (!file) return file.error();
  std::string content;
  struct stat about {};
  // Only a hint: files of /proc have no size, and other files may grow meanwhile.
  if (::fstat(file->get(), &about) == 0) {
    content.reserve(std::min(static_cast<std::size_t>(about.st_size), bytes_max) + kChunkBytesMin);
  }
  for (;;) {
    const std::size_t had = content.size();
    const std::size_t chunk = std::clamp(had, kChunkBytesMin, kChunkBytes);
    content.resize(had + chunk);
    const ssize_t got = ::read(file->get(), content.data() + had, chunk);
    content.resize(had + (got > 0 ? static_cast<std::size_t>(got) : 0));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return make_errno_error(errno, path.string());
    if (got == 0) return content;
    if (content.size() > bytes_max) {
      return make_error(
          Errc::kLimit, fmt::format("{}: larger than {} bytes", path.string(), bytes_max));
    }
  }
}

Result<Pipe> make_pipe() {
  int ends[2] = {-1, -1};
  if (::pipe2(ends, O_CLOEXEC) != 0) return make_errno_error(errno, "cannot make a pipe");
  return Pipe{.read_end = Descriptor(ends[0]), .write_end = Descriptor(ends[1])};
}

Result<std::string> read_to_end(int pipe, TimePoint deadline, std::size_t bytes_max) {
  std::string content;
  std::vector<char> piece(kChunkBytes);
  for (;;) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now()).count();
    pollfd waited{.fd = pipe, .events = POLLIN, .revents = 0};
    const int ready = ::poll(&waited, 1, static_cast<int>(std::max<std::int64_t>(left, 0)));
    if (ready < 0 && errno == EINTR) continue;
    if (ready < 0) return make_errno_error(errno, "a pipe");
    if (ready == 0) return make_error(Errc::kTimedOut, "no reply in time");
    const ssize_t got = ::read(pipe, piece.data(), piece.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return make_errno_error(errno, "a pipe");
    if (got == 0) return content;
    content.append(piece.data(), static_cast<std::size_t>(got));
    if (content.size() > bytes_max) {
      return make_error(Errc::kLimit, fmt::format("more than {} bytes arrived", bytes_max));
    }
  }
}

Result<void> replace_file(const std::filesystem::path& path, std::string_view content) {
  return replace_file(path, std::vector{content});
}

Result<void> replace_file(
    const std::filesystem::path& path, const std::vector<std::string_view>& pieces) {
  std::error_code error;
  const auto found = std::filesystem::status(path, error);
  if (std::filesystem::exists(found) && !std::filesystem::is_regular_file(found)) {
    return make_error(Errc::kIo, fmt::format("{}: not a regular file", path.string()));
  }
  std::filesystem::path target = path;
  if (std::filesystem::is_symlink(path, error)) {
    target = std::filesystem::weakly_canonical(path, error);
    if (error) return make_errno_error(error.value(), path.string());
  }
  const std::filesystem::path aside = fmt::format("{}.{}.tmp", target.string(), ::getpid());
  auto written = write_synced(aside, pieces, path.string());
  if (written && ::rename(aside.c_str(), target.c_str()) != 0) {
    written = make_errno_error(errno, path.string());
  }
  if (!written) {
    ::unlink(aside.c_str());
    return written;
  }
  return sync_directory(target.has_parent_path() ? target.parent_path() : ".");
}

Result<void> sync_directory(const std::filesystem::path& directory) {
  return synced(directory, &::fsync);
}

Result<void> sync_file_system(const std::filesystem::path& directory) {
  return synced(directory, &::syncfs);
}

Result<void> overwrite_file(const std::filesystem::path& path, std::string_view content) {
  constexpr int kFlags = O_WRONLY | O_CREAT | O_TRUNC | O_NONBLOCK | O_NOCTTY | O_CLOEXEC;
  const Descriptor file = open_file(path.c_str(), kFlags, kMode);
  if (!file) return make_errno_error(errno, path.string());
  if (!write_all(file.get(), content)) return make_errno_error(errno, path.string());
  return {};
}

}  // namespace ddprun
