#include "agent/launch_directory.hpp"

#include "agent/core/file_name.hpp"

#include <fmt/format.h>

#include <cerrno>
#include <cstdlib>
#include <string>
#include <system_error>
#include <utility>

#include <sys/stat.h>
#include <unistd.h>

namespace ddprun {
namespace {

constexpr mode_t kDirectoryMode = 0777;  // less the umask, as for every program

/// Why a directory that was asked for cannot be written: the value is wrong if another try gives
/// the same result, else the machine is the cause.
Error directory_error(int errno_value, const std::filesystem::path& directory) {
  Error error = make_errno_error(
      errno_value, fmt::format("cannot write the log directory {}", directory.string()));
  const bool is_value = errno_value == EACCES || errno_value == EPERM || errno_value == EROFS ||
                        errno_value == ENOTDIR || errno_value == EEXIST ||
                        errno_value == ENAMETOOLONG || errno_value == ENOENT;
  if (!is_value) return error;
  return make_error(
      Errc::kInvalidArgument, error.detail + "; give a directory that you may write as --log-dir");
}

/// A new directory whose name begins with `beginning`, with the permissions of the umask.
Result<std::filesystem::path> make_unique_directory(
    const std::filesystem::path& beginning, mode_t umask) {
  std::string name = beginning.string() + "XXXXXX";
  if (::mkdtemp(name.data()) == nullptr) {
    return directory_error(errno, beginning.parent_path());
  }
  ::chmod(name.c_str(), kDirectoryMode & ~umask);  // mkdtemp's 0700 would hide logs from the group
  return name;
}

/// The directory in which that of the launch is made.
Result<std::filesystem::path> open_base(const StreamsPlan& plan, mode_t umask) {
  if (plan.log_directory) {
    if (const auto made = make_directories(*plan.log_directory); !made) return made.error();
    return *plan.log_directory;
  }
  const char* const temporary = std::getenv("TMPDIR");  // NOLINT(concurrency-mt-unsafe)
  const std::filesystem::path base =
      temporary != nullptr && *temporary != '\0' ? temporary : "/tmp";
  auto made = make_unique_directory(base / "torchelastic_", umask);
  if (!made) return with_context("$TMPDIR", made.error());
  return made;
}

}  // namespace

mode_t own_umask() {
  const mode_t mask = ::umask(0);  // can only be read by setting it
  ::umask(mask);
  return mask;
}

Result<LaunchDirectory> open_launch_directory(
    const StreamsPlan& plan, std::string_view run_id, mode_t umask) {
  LaunchDirectory out;
  if (plan.no_files) return out;
  const auto base = open_base(plan, umask);
  if (!base) return base.error();
  auto made =
      make_unique_directory(std::filesystem::absolute(*base) / (as_file_name(run_id) + "_"), umask);
  if (!made) return made.error();
  out.path = *std::move(made);
  out.is_ours = !plan.log_directory;
  return out;
}

void remove_launch_directory(const LaunchDirectory& directory) {
  if (!directory.is_ours || directory.path.empty()) return;
  std::error_code ignored;  // leaving it under $TMPDIR is not a failure of the job
  std::filesystem::remove_all(directory.path.parent_path(), ignored);
}

Result<void> make_directories(const std::filesystem::path& directory) {
  std::error_code error;
  std::filesystem::create_directories(directory, error);
  if (error) return directory_error(error.value(), directory);
  return {};
}

}  // namespace ddprun
