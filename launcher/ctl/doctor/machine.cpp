#include "launcher/ctl/doctor/machine.hpp"

#include "agent/run_program.hpp"
#include "base/descriptor.hpp"
#include "base/file.hpp"
#include "base/parse.hpp"
#include "launcher/flags/python.hpp"

#include <fmt/format.h>

#include <array>
#include <cerrno>
#include <filesystem>
#include <optional>
#include <string_view>
#include <vector>

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/timex.h>
#include <unistd.h>

namespace ddprun {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kVersionFileBytesMax = 64 << 10;
constexpr std::size_t kPythonOutputBytesMax = 4 << 20;  // a line for each of some thousand packages

/// errno of an attempt to write; 0: success. Only a write shows an exceeded quota.
int try_to_write(const std::string& directory) {
  constexpr mode_t kMode = 0600;
  const Descriptor file(::open(directory.c_str(), O_TMPFILE | O_WRONLY | O_CLOEXEC, kMode));
  if (file) return write_all(file.get(), std::string(4096, '\0')) ? 0 : errno;
  // Some network file systems do not support files without a name.
  const bool is_unknown = errno == EOPNOTSUPP || errno == EISDIR || errno == EINVAL;
  if (!is_unknown) return errno;
  return ::access(directory.c_str(), W_OK | X_OK) == 0 ? 0 : errno;
}

/// errno of reading the first byte or entry; 0: success, or the end of the file.
int try_to_read(const DataPath& data, bool& is_empty) {
  if (data.is_directory) {
    std::error_code error;
    const fs::directory_iterator first(data.path, error);
    is_empty = !error && first == fs::directory_iterator();
    return error.value();
  }
  // Without O_NONBLOCK, opening a FIFO blocks until another process writes to it.
  const Descriptor file(::open(data.path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  if (!file) return errno;
  char byte = 0;
  const ssize_t got = ::read(file.get(), &byte, 1);
  is_empty = got == 0;
  return got < 0 ? errno : 0;
}

/// "3.11" for "python3.11"; empty for other names.
std::string version_in(const std::string& name) {
  constexpr std::string_view kPython = "python";
  return name.starts_with("python3.") ? name.substr(kPython.size()) : "";
}

bool begins_a_script(const std::string& path) {
  std::array<char, 2> bytes{};
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  const ssize_t got = file ? ::read(file.get(), bytes.data(), bytes.size()) : -1;
  return got == 2 && bytes[0] == '#' && bytes[1] == '!';
}

/// The major version of the loaded NVIDIA driver.
std::optional<int> driver_here() {
  const auto text = read_file("/proc/driver/nvidia/version", 4096);
  if (!text) return std::nullopt;
  for (const std::string_view word : split(*text, ' ')) {
    // "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.65.06  ..."
    const std::size_t dot = word.find('.');
    if (dot == std::string_view::npos) continue;
    if (const auto number = parse_int<int>(word.substr(0, dot))) return number;
  }
  return std::nullopt;
}

/// Where that Python looks for installed packages, in its order.
std::vector<fs::path> packages_of(
    const PythonInstallation& python, const std::map<std::string, std::string>& environment) {
  const fs::path prefix = fs::path(python.program).parent_path().parent_path();
  std::vector<fs::path> libraries = {prefix / "lib", prefix / "lib64"};
  std::error_code error;
  if (!fs::exists(prefix / "pyvenv.cfg", error)) {  // where pip installs for one user, or for root
    const auto home = environment.find("HOME");
    if (home != environment.end()) libraries.push_back(fs::path(home->second) / ".local/lib");
    libraries.emplace_back("/usr/local/lib");
  }
  std::vector<fs::path> packages;
  for (const fs::path& library : libraries) {
    for (fs::directory_iterator entry(library, error), end; !error && entry != end;
         entry.increment(error)) {
      const std::string name = entry->path().filename();
      const bool is_its = name == "python3" || name == "python" + python.version ||
                          (python.version.empty() && name.starts_with("python3."));
      if (!is_its) continue;
      packages.push_back(entry->path() / "site-packages");
      packages.push_back(entry->path() / "dist-packages");
    }
  }
  return packages;
}

/// "2.11.0" for "__version__ = '2.11.0'"; empty if `name` is not assigned a text there.
std::string assigned(std::string_view text, std::string_view name) {
  for (const std::string_view line : split(text, '\n')) {
    const std::string_view rest = line.starts_with(name) ? line.substr(name.size()) : "";
    if (!rest.starts_with(' ') && !rest.starts_with(':')) continue;
    const std::size_t begin = rest.find('\'');
    const std::size_t end = rest.rfind('\'');
    if (begin < end && end != std::string_view::npos) {
      return std::string(rest.substr(begin + 1, end - begin - 1));
    }
  }
  return {};
}

/// "2.28.9" for "nvidia_nccl_cu13-2.28.9.dist-info", a package directory; empty for other names.
std::string nccl_by(std::string_view name) {
  constexpr std::string_view kSuffix = ".dist-info";
  const std::size_t dash = name.find('-');
  if (!name.starts_with("nvidia_nccl") || !name.ends_with(kSuffix) || dash > name.size()) return {};
  return std::string(name.substr(dash + 1, name.size() - kSuffix.size() - dash - 1));
}

std::string nccl_in(const fs::path& packages) {
  std::error_code error;
  for (fs::directory_iterator entry(packages, error), end; !error && entry != end;
       entry.increment(error)) {
    std::string version = nccl_by(entry->path().filename().string());
    if (!version.empty()) return version;
  }
  return {};
}

// Does not import torch, which takes seconds. Output of a wrapper before the marker is ignored.
constexpr char kTellsOfItself[] = R"(import os, sys
print("ddprun-doctor", sys.executable, "%d.%d" % sys.version_info[:2], sep="\n")
for path in filter(None, sys.path):
    version = os.path.join(path, "torch", "version.py")
    if os.path.isfile(version):
        print(open(version).read())
        print(*os.listdir(path), sep="\n")
        break
)";

/// What a program prints when it runs kTellsOfItself.
Result<std::string> run_interpreter(
    const std::string& program,
    const std::map<std::string, std::string>& environment,
    TimePoint deadline) {
  SpawnRequest request;
  request.command = {program, "-c", kTellsOfItself};
  for (const auto& [name, value] : environment) {
    request.environment.push_back(fmt::format("{}={}", name, value));
  }
  auto ended = run_program(std::move(request), deadline, kPythonOutputBytesMax);
  if (!ended) return ended.error();
  if (!ended->end.ok()) return make_error(Errc::kIo, "it " + ended->end.to_string());
  return std::move(ended->out);
}

/// Fills in what the Python behind a script reports about itself.
void probe_script(
    PythonInstallation& python,
    const std::map<std::string, std::string>& environment,
    TimePoint deadline) {
  const auto output = run_interpreter(python.program, environment, deadline);
  if (!output) {
    python.unknown_why = output.error();
    return;
  }
  constexpr std::string_view kBegin = "ddprun-doctor\n";
  const std::size_t begin = output->rfind(kBegin);
  const auto lines = split(
      begin == std::string::npos ? "" : std::string_view(*output).substr(begin + kBegin.size()),
      '\n');
  if (lines.size() < 2 || lines[0].empty()) {
    python.unknown_why = make_error(Errc::kIo, "it did not run -c as Python does");
    return;
  }
  python.starts = lines[0];
  python.version = lines[1];
  python.torch = assigned(*output, "__version__");
  python.cuda = assigned(*output, "cuda");
  for (const std::string_view line : lines) {
    if (python.nccl.empty()) python.nccl = nccl_by(line);
  }
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

Disk probe_disk(const std::string& directory) {
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

DataPath probe_data(const std::string& path) {
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

Limits probe_limits(std::uint64_t nodes) {
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

Gpus probe_gpus(const std::map<std::string, std::string>& environment) {
  Gpus gpus;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator("/dev", error)) {
    constexpr std::string_view kPrefix = "nvidia";
    const std::string name = entry.path().filename();
    if (!name.starts_with(kPrefix)) continue;
    if (!parse_int<unsigned>(std::string_view(name).substr(kPrefix.size()))) continue;
    ++gpus.devices;
    // Opening one may start the device, which takes seconds; access() is refused by the cgroup as
    // well.
    if (::access(entry.path().c_str(), R_OK | W_OK) == 0) ++gpus.permitted;
  }
  const auto visible = environment.find("CUDA_VISIBLE_DEVICES");
  if (visible != environment.end()) gpus.visible = visible->second;
  const auto of_step = environment.find("SLURM_GPUS_ON_NODE");
  if (of_step != environment.end()) gpus.of_step = parse_int<int>(of_step->second);
  return gpus;
}

PythonInstallation probe_python(
    const std::map<std::string, std::string>& environment, TimePoint deadline) {
  PythonInstallation python;
  python.gpus = probe_gpus(environment).devices;
  python.driver = driver_here();
  auto found = find_python(environment, own_directory());
  if (!found) {
    python.error = found.error();
    return python;
  }
  python.program = *std::move(found);
  if (begins_a_script(python.program)) {
    probe_script(python, environment, deadline);
    return python;
  }
  std::error_code error;
  python.version = version_in(fs::canonical(python.program, error).filename());
  for (const fs::path& packages : packages_of(python, environment)) {
    const auto text = read_file(packages / "torch" / "version.py", kVersionFileBytesMax);
    if (!text) continue;
    python.torch = assigned(*text, "__version__");
    python.cuda = assigned(*text, "cuda");
    python.nccl = nccl_in(packages);
    if (python.version.empty()) python.version = version_in(packages.parent_path().filename());
    break;
  }
  return python;
}

KernelClock probe_clock() {
  timex clock{};
  const int state = ::adjtimex(&clock);
  constexpr double kMicro = 1e-6;
  return {
      .is_synchronised = state >= 0 && state != TIME_ERROR && (clock.status & STA_UNSYNC) == 0,
      .error_s = static_cast<double>(clock.maxerror) * kMicro};
}

}  // namespace ddprun
