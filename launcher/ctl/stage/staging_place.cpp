#include "launcher/ctl/stage/staging_place.hpp"

#include "base/file.hpp"
#include "base/format_error.hpp"
#include "base/log.hpp"
#include "base/parse.hpp"
#include "launcher/ctl/stage/core/staging.hpp"

#include <fmt/format.h>

#include <cerrno>
#include <string>
#include <system_error>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

namespace ddprun {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMarkerBytesMax = 4096;

Error refused(const fs::path& destination, std::string_view why) {
  return invalid_argument("DEST {} {}", destination.string(), why);
}

Result<void> lock(const Descriptor& directory, const fs::path& path) {
  if (::flock(directory.get(), LOCK_EX | LOCK_NB) == 0) return {};
  if (errno == EWOULDBLOCK) {
    spdlog::info("waiting for the process that creates {}", path.string());
    while (::flock(directory.get(), LOCK_EX) != 0) {
      if (errno != EINTR) return make_errno_error(errno, path.string());
    }
    return {};
  }
  return with_context(
      "cannot lock a directory there; name one on a local disk",
      make_errno_error(errno, path.string()));
}

/// Whether `path` still leads to the opened directory.
bool is_still_at(const Descriptor& directory, const fs::path& path) {
  struct stat opened {};
  struct stat found {};
  return ::fstat(directory.get(), &opened) == 0 && ::lstat(path.c_str(), &found) == 0 &&
         opened.st_dev == found.st_dev && opened.st_ino == found.st_ino;
}

}  // namespace

StagingPlace::StagingPlace(fs::path destination)
    : destination_(std::move(destination)), aside_(destination_.string() + ".staging") {}

Result<StagingPlace> StagingPlace::at(const fs::path& destination) {
  std::error_code error;
  fs::path absolute = fs::absolute(destination, error).lexically_normal();
  if (!absolute.has_filename()) absolute = absolute.parent_path();
  if (error || !absolute.has_filename()) {
    return refused(destination, "cannot be created; name a new directory");
  }
  const fs::path parent = absolute.parent_path();
  fs::create_directories(parent, error);
  if (error) return with_context("DEST", make_errno_error(error.value(), parent.string()));
  return StagingPlace(std::move(absolute));
}

Result<bool> StagingPlace::hold() {
  if (::mkdir(aside_.c_str(), 0777) != 0 && errno != EEXIST) {
    return with_context("cannot create DEST", make_errno_error(errno, aside_.string()));
  }
  Descriptor opened(::open(aside_.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!opened && errno == ENOENT) return false;
  struct stat about {};
  if (!opened || ::fstat(opened.get(), &about) != 0) {
    return with_context("cannot create DEST", make_errno_error(errno, aside_.string()));
  }
  if (about.st_uid != ::geteuid()) {
    return refused(aside_, "belongs to another user; name another directory");
  }
  if (const auto locked = lock(opened, aside_); !locked) return locked.error();
  if (!is_still_at(opened, aside_)) return false;
  held_ = std::move(opened);
  return true;
}

Result<void> StagingPlace::empty() {
  std::error_code error;
  for (fs::directory_iterator at(aside_, error), end; !error && at != end; at.increment(error)) {
    fs::remove_all(at->path(), error);
    if (error) break;
  }
  if (!error) return {};
  return with_context(
      "cannot remove the files that an earlier staging left",
      make_errno_error(error.value(), aside_.string()));
}

Result<void> StagingPlace::finish(std::string_view marker) {
  // The archive may give its top directory a mode that forbids adding files.
  struct stat about {};
  const bool is_open = ::fstat(held_.get(), &about) == 0 &&
                       ::fchmod(held_.get(), (about.st_mode & 07777U) | S_IRWXU) == 0;
  if (!is_open) return make_errno_error(errno, aside_.string());
  // First sync all files, then write the marker that says they are complete.
  if (const auto synced = sync_file_system(aside_); !synced) return synced.error();
  if (const auto done = replace_file(aside_ / kMarkerName, marker); !done) return done.error();
  if (::rename(aside_.c_str(), destination_.c_str()) != 0) {
    return make_errno_error(errno, destination_.string());
  }
  return sync_directory(destination_.parent_path());
}

void StagingPlace::discard() {
  std::error_code error;
  fs::remove_all(aside_, error);
  if (error) spdlog::warn("{} is left behind: {}", aside_.string(), error.message());
  held_.reset();
}

Result<bool> StagingPlace::has(std::string_view marker) const {
  std::error_code error;
  const auto found = fs::symlink_status(destination_, error);
  if (found.type() == fs::file_type::not_found) return false;
  if (error) return with_context("DEST", make_errno_error(error.value(), destination_.string()));
  if (!fs::is_directory(found)) return refused(destination_, "exists and is not a directory");
  const auto written = read_file(destination_ / kMarkerName, kMarkerBytesMax);
  if (written) {
    if (*written == marker) return true;
    return refused(
        destination_,
        fmt::format(
            "was staged from another archive ({}, not {}); remove it, or name another directory",
            trim(*written),
            trim(marker)));
  }
  if (!written.error().is(Errc::kNotFound)) return with_context("DEST", written.error());
  const bool is_empty = fs::is_empty(destination_, error);
  if (error) return with_context("DEST", make_errno_error(error.value(), destination_.string()));
  if (is_empty) return false;
  return refused(
      destination_, "has files that were not staged; name a directory that does not exist yet");
}

}  // namespace ddprun
