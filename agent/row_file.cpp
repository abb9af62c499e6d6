#include "agent/row_file.hpp"

#include <fmt/format.h>

#include <cerrno>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

namespace ddprun {
namespace {

constexpr mode_t kMode = 0666;  // less the umask, as for every program
// A FIFO in its place is refused, without waiting for a reader.
constexpr int kFlags = O_WRONLY | O_CREAT | O_APPEND | O_NONBLOCK | O_NOCTTY | O_CLOEXEC;

Error cannot_write(const std::filesystem::path& path, int errno_value) {
  return make_errno_error(errno_value, fmt::format("cannot write {}", path.string()));
}

}  // namespace

Result<RowFile> RowFile::open(std::filesystem::path path, std::string_view header) {
  std::error_code failed;
  std::filesystem::create_directories(path.parent_path(), failed);
  if (failed) return cannot_write(path, failed.value());
  Descriptor file(::open(path.c_str(), kFlags, kMode));
  struct stat about {};
  if (!file || ::fstat(file.get(), &about) != 0) return cannot_write(path, errno);
  if (!S_ISREG(about.st_mode)) {
    return make_error(Errc::kIo, fmt::format("cannot write {}: not a regular file", path.string()));
  }
  // If the file system has no locks, the check is skipped.
  if (::flock(file.get(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
    return make_error(
        Errc::kIo,
        fmt::format("another ddprun of this job's id on this host writes {}", path.string()));
  }
  RowFile opened(std::move(file), std::move(path));
  if (about.st_size > 0) return opened;
  auto const begun = opened.append(header);
  if (!begun) return begun.error();
  return opened;
}

RowFile::RowFile(Descriptor file, std::filesystem::path path)
    : file_(std::move(file)), path_(std::move(path)) {}

Result<void> RowFile::append(std::string_view rows) {
  const off_t before = ::lseek(file_.get(), 0, SEEK_END);
  if (write_all(file_.get(), rows)) return {};
  Error error = cannot_write(path_, errno);
  // Half a row would spoil the rows of a later start. If this fails too, nothing more can be done.
  static_cast<void>(::ftruncate(file_.get(), before));
  return error;
}

}  // namespace ddprun
