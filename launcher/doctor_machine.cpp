#include "launcher/doctor_machine.hpp"

#include "base/descriptor.hpp"
#include "base/parse.hpp"

#include <cerrno>
#include <filesystem>
#include <optional>
#include <string_view>

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/timex.h>
#include <unistd.h>

namespace ddprun {
namespace {

namespace fs = std::filesystem;

/// errno of an attempt to write; 0: it went well. A quota shows in nothing else.
int try_to_write(const std::string& directory) {
  constexpr mode_t kMode = 0600;
  const Descriptor file(::open(directory.c_str(), O_TMPFILE | O_WRONLY | O_CLOEXEC, kMode));
  if (file) return write_all(file.get(), std::string(4096, '\0')) ? 0 : errno;
  // Some network file systems know no file without a name.
  const bool is_unknown = errno == EOPNOTSUPP || errno == EISDIR || errno == EINVAL;
  if (!is_unknown) return errno;
  return ::access(directory.c_str(), W_OK | X_OK) == 0 ? 0 : errno;
}

/// errno of reading the first byte or entry; 0: there was one, or the end.
int try_to_read(const DataPath& data, bool& is_empty) {
  if (data.is_directory) {
    std::error_code error;
    const fs::directory_iterator first(data.path, error);
    is_empty = !error && first == fs::directory_iterator();
    return error.value();
  }
  // Without O_NONBLOCK, opening a FIFO waits until somebody writes to it.
  const Descriptor file(::open(data.path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  if (!file) return errno;
  char byte = 0;
  const ssize_t got = ::read(file.get(), &byte, 1);
  is_empty = got == 0;
  return got < 0 ? errno : 0;
}

std::optional<std::uint64_t> finite(rlim_t limit) {
  if (limit == RLIM_INFINITY) return std::nullopt;
  return limit;
}

std::optional<std::uint64_t> soft_limit(decltype(RLIMIT_NOFILE) resource) {
  rlimit limit{};
  if (::getrlimit(resource, &limit) != 0) return std::nullopt;
  return finite(limit.rlim_cur);
}

}  // namespace

Disk look_at_disk(const std::string& directory) {
  Disk disk{.path = directory};
  disk.error = try_to_write(directory);
  struct statvfs about {};
  if (::statvfs(directory.c_str(), &about) != 0) {
    if (disk.error == 0) disk.error = errno;
    return disk;
  }
  disk.bytes_free = std::uint64_t{about.f_bavail} * about.f_frsize;
  disk.bytes = std::uint64_t{about.f_blocks} * about.f_frsize;
  disk.inodes_free = about.f_favail;
  disk.inodes = about.f_files;
  return disk;
}

DataPath look_at_data(const std::string& path) {
  DataPath data{.path = path, .link_target = ""};
  struct stat about {};
  std::error_code no_link;
  const fs::path target = fs::read_symlink(path, no_link);
  if (!no_link) data.link_target = target;
  if (::stat(path.c_str(), &about) != 0) {
    data.error = errno;
    return data;
  }
  data.is_directory = S_ISDIR(about.st_mode);
  data.bytes = static_cast<std::uint64_t>(about.st_size);
  data.error = try_to_read(data, data.is_empty);
  return data;
}

Limits look_at_limits(std::uint64_t nodes) {
  Limits limits;
  limits.nodes = nodes;
  limits.open_files = soft_limit(RLIMIT_NOFILE);
  rlimit files{};
  if (::getrlimit(RLIMIT_NOFILE, &files) == 0) limits.open_files_hard = finite(files.rlim_max);
  limits.processes = soft_limit(RLIMIT_NPROC);
  limits.locked_bytes = soft_limit(RLIMIT_MEMLOCK);
  limits.core_bytes = soft_limit(RLIMIT_CORE);
  std::error_code none;
  const fs::directory_iterator adapters("/sys/class/infiniband", none);
  limits.has_infiniband = !none && adapters != fs::directory_iterator();
  return limits;
}

Gpus look_at_gpus(const std::map<std::string, std::string>& environment) {
  Gpus gpus;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator("/dev", error)) {
    constexpr std::string_view kPrefix = "nvidia";
    const std::string name = entry.path().filename();
    if (!name.starts_with(kPrefix)) continue;
    if (!parse_int<unsigned>(std::string_view(name).substr(kPrefix.size()))) continue;
    ++gpus.devices;
    // Opening one may start the device, which takes seconds; the cgroup refuses this as well.
    if (::access(entry.path().c_str(), R_OK | W_OK) == 0) ++gpus.permitted;
  }
  const auto visible = environment.find("CUDA_VISIBLE_DEVICES");
  if (visible != environment.end()) gpus.visible = visible->second;
  const auto of_step = environment.find("SLURM_GPUS_ON_NODE");
  if (of_step != environment.end()) gpus.of_step = parse_int<int>(of_step->second);
  return gpus;
}

KernelClock look_at_clock() {
  timex clock{};
  const int state = ::adjtimex(&clock);
  constexpr double kMicro = 1e-6;
  return {
      .is_synchronised = state >= 0 && state != TIME_ERROR && (clock.status & STA_UNSYNC) == 0,
      .error_s = static_cast<double>(clock.maxerror) * kMicro};
}

}  // namespace ddprun
