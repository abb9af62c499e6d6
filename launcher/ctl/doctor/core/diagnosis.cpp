#include "launcher/ctl/doctor/core/diagnosis.hpp"

#include "base/format_error.hpp"
#include "base/parse.hpp"
#include "launcher/ctl/core/byte_size.hpp"
#include "slurm/core/allocation.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <tuple>
#include <utility>

namespace ddprun {
namespace {

constexpr std::uint64_t kMiB = std::uint64_t{1024} * 1024;
constexpr std::uint64_t kShmBytesMin = 512 * kMiB;
constexpr std::uint64_t kInodesMin = 1'000;
constexpr std::uint64_t kOpenFilesMin = 1'024;
// A leader holds two connections to each node, and its workers connect to the store.
constexpr std::uint64_t kOpenFilesPerNode = 4;
// Eight workers with a hundred threads each, and some reserve.
constexpr std::uint64_t kProcessesMin = 1'024;

constexpr char kMakeRoom[] = "free some space there, or choose another directory";

/// Why a directory cannot be written, as (cause, remedy).
std::pair<std::string, std::string> seen_and_remedy(const Disk& disk) {
  switch (disk.error) {
    case ENOENT:
      return {"does not exist", "create it (mkdir -p), or mount its file system"};
    case ENOTDIR:
      return {"not a directory", "give a directory"};
    case EROFS:
      return {
          "mounted read-only", "choose another directory, or ask for it to be mounted for writing"};
    case EACCES:
    case EPERM:
      return {
          "this user may not write there", "choose another directory, or change its permissions"};
    case EDQUOT:
      return {"this user's disk quota is exceeded", kMakeRoom};
    case ENOSPC:
      return {
          disk.inodes > 0 && disk.inodes_free == 0 ? "no inodes are left" : "disk full", kMakeRoom};
    default:
      return {std::strerror(disk.error), "check that disk, or choose another directory"};
  }
}

std::string limit_text(std::optional<std::uint64_t> limit) {
  return limit ? fmt::to_string(*limit) : "unlimited";
}

bool is_below(std::optional<std::uint64_t> limit, std::uint64_t min) {
  return limit && *limit < min;
}

Finding judge_open_files(const Limits& limits) {
  const std::uint64_t min = std::max(kOpenFilesMin, kOpenFilesPerNode * limits.nodes);
  Finding finding{
      .subject = "limit nofile",
      .seen = fmt::format(
          "{} open files, hard limit {}",
          limit_text(limits.open_files),
          limit_text(limits.open_files_hard)),
      .remedy = ""};
  if (is_below(limits.open_files_hard, min)) {
    finding.remedy = fmt::format(
        "{} are needed: ask for a higher hard limit (ulimit -Hn), or submit from a shell that has "
        "one",
        min);
  } else if (is_below(limits.open_files, min)) {
    finding.remedy = fmt::format("{} are needed: ulimit -n {}", min, min);
  }
  return finding;
}

/// The oldest driver that runs programs built for this CUDA, by NVIDIA's table of minor version
/// compatibility; 0 for a CUDA older than the table.
int driver_for(std::string_view cuda) {
  const auto major = parse_int<int>(cuda.substr(0, cuda.find('.')));
  if (!major || *major < 11) return 0;
  if (*major == 11) return 450;
  return *major == 12 ? 525 : 580;
}

Finding judge_mask(const Gpus& gpus, const std::string& list) {
  Finding finding{.subject = "gpus", .seen = "", .remedy = ""};
  const std::string variable = fmt::format("CUDA_VISIBLE_DEVICES is '{}'", list);
  const int named = static_cast<int>(std::ranges::count(list, ',')) + 1;
  const int visible = visible_devices(list, gpus.permitted);
  finding.seen = fmt::format("{} of {} are visible: {}", visible, gpus.devices, variable);
  if (visible == 0 && visible_devices(list) == 0) {
    finding.seen = fmt::format("{}, which hides all {}", variable, gpus.devices);
    finding.remedy = "unset it, or ask Slurm for GPUs (--gpus-per-node)";
  } else if (visible < named) {
    finding.seen = fmt::format(
        "{}, but this process may use {} GPUs: CUDA takes only {}",
        variable,
        gpus.permitted,
        visible);
    finding.remedy = "list existing GPUs, counted from 0, or unset it";
  }
  return finding;
}

}  // namespace

Finding refused(std::string subject, const Error& error, std::string_view remedy) {
  const std::string& detail = error.detail;
  const std::size_t at = detail.rfind("; ");
  const bool has_remedy = at != std::string::npos;
  return {
      .subject = std::move(subject),
      .seen = detail.substr(0, at),
      .remedy = has_remedy ? detail.substr(at + 2) : std::string(remedy)};
}

Finding judge_disk(const Disk& disk, std::uint64_t bytes_min) {
  Finding finding{.subject = "disk " + disk.path, .seen = "", .remedy = ""};
  if (disk.error != 0) {
    std::tie(finding.seen, finding.remedy) = seen_and_remedy(disk);
    return finding;
  }
  finding.seen =
      fmt::format("{} of {} are free", size_text(disk.bytes_free), size_text(disk.bytes));
  if (disk.bytes_free < bytes_min) {
    finding.seen += fmt::format(", less than {}", size_text(bytes_min));
    finding.remedy = fmt::format("{}, or ask for less (--min-free)", kMakeRoom);
  } else if (disk.inodes > 0 && disk.inodes_free < kInodesMin) {
    finding.seen = fmt::format("{} of {} inodes are free", disk.inodes_free, disk.inodes);
    finding.remedy = "delete small files there, or choose another directory";
  }
  return finding;
}

Finding judge_shm(const Disk& disk) {
  Finding finding{.subject = "shm", .seen = "", .remedy = ""};
  if (disk.error != 0 && disk.error != ENOSPC) {
    finding.seen = "/dev/shm: " + seen_and_remedy(disk).first;
    finding.remedy = "mount a tmpfs there that every user may write to";
    return finding;
  }
  finding.seen =
      fmt::format("{} of {} are free", size_text(disk.bytes_free), size_text(disk.bytes));
  if (disk.bytes < kShmBytesMin) {
    finding.seen = fmt::format("the size of /dev/shm is only {}", size_text(disk.bytes));
    finding.remedy = "start the container with a larger one (--shm-size=8g, --ipc=host)";
  } else if (disk.bytes_free < kShmBytesMin) {
    finding.remedy = "delete files that ended processes have left in /dev/shm";
  }
  return finding;
}

Finding judge_data(const DataPath& data) {
  Finding finding{.subject = "data " + data.path, .seen = "", .remedy = ""};
  if (data.error == ENOENT && !data.link_target.empty()) {
    finding.seen = fmt::format("a link to {}, which does not exist", data.link_target);
    finding.remedy = "stage the data again, or mount the target of the link";
  } else if (data.error == ENOENT || data.error == ENOTDIR) {
    finding.seen = "does not exist";
    finding.remedy = "correct the path, stage the data, or mount its disk on this node";
  } else if (data.error == EACCES || data.error == EPERM) {
    finding.seen = "this user may not read it";
    finding.remedy = "change its permissions (chmod a+rX), and those of the directories above it";
  } else if (data.error != 0) {
    finding.seen = std::strerror(data.error);
    finding.remedy = "check its disk, or exclude this node (--exclude)";
  } else if (data.is_empty) {
    finding.seen = data.is_directory ? "an empty directory" : "an empty file";
    finding.remedy = "stage the data again, or mount its disk on this node";
  } else {
    finding.seen = data.is_directory ? "a directory" : "a file of " + size_text(data.bytes);
  }
  return finding;
}

Findings judge_limits(const Limits& limits) {
  Findings findings = {judge_open_files(limits)};
  findings.push_back(
      {.subject = "limit nproc",
       .seen = fmt::format(
           "{} processes and threads for all jobs of this user", limit_text(limits.processes)),
       .remedy = is_below(limits.processes, kProcessesMin)
                     ? fmt::format("{} are needed: ulimit -u {}", kProcessesMin, kProcessesMin)
                     : ""});
  Finding memory{.subject = "limit memlock", .seen = "unlimited", .remedy = ""};
  if (limits.locked_bytes) {
    memory.seen = fmt::format("{} of locked memory", size_text(*limits.locked_bytes));
    if (limits.has_infiniband) {
      memory.seen += ", and InfiniBand locks what it sends";
      memory.remedy = "ulimit -l unlimited, and srun --propagate=NONE where nodes allow more";
    }
  }
  findings.push_back(std::move(memory));
  const bool has_cores = limits.core_bytes.value_or(1) > 0;
  findings.push_back(
      {.subject = "limit core",
       .seen = has_cores ? "a crash may leave a core dump of " +
                               (limits.core_bytes ? size_text(*limits.core_bytes) : "any size")
                         : "a crash leaves no core dump (ulimit -c)",
       .remedy = ""});
  return findings;
}

Finding judge_gpus(const Gpus& gpus) {
  Finding finding{.subject = "gpus", .seen = "no NVIDIA GPUs", .remedy = ""};
  const int of_step = gpus.of_step.value_or(0);
  const int named = gpus.visible ? visible_devices(*gpus.visible) : of_step;
  if (gpus.visible && named > 0 && named < of_step) {
    finding.seen = fmt::format(
        "this task sees {} of the step's {} on this node (CUDA_VISIBLE_DEVICES is '{}'), not those "
        "of its other tasks",
        named,
        of_step,
        *gpus.visible);
    finding.remedy = "give srun --gpus-per-node instead of --gpus-per-task, or --gpu-bind=none";
  } else if (gpus.devices == 0 && named > 0) {
    finding.seen = fmt::format(
        "{} in {}, but /dev/nvidia0 does not exist",
        named,
        gpus.visible ? "CUDA_VISIBLE_DEVICES" : "SLURM_GPUS_ON_NODE");
    finding.remedy = "load the driver, or start the container with its GPUs (--nv, --gpus all)";
  } else if (gpus.devices > 0 && gpus.permitted == 0) {
    finding.seen = fmt::format("this process may not open any of the {} GPUs", gpus.devices);
    finding.remedy = "ask Slurm for GPUs (--gpus-per-node)";
  } else if (gpus.devices > 0 && gpus.visible) {
    return judge_mask(gpus, *gpus.visible);
  } else if (gpus.devices > 0) {
    finding.seen = fmt::format("{} of {} are visible", gpus.permitted, gpus.devices);
  }
  return finding;
}

Finding judge_python(const PythonInstallation& python) {
  constexpr char kInstall[] = "install torch there, or set PYTHON_EXEC to a Python that has it";
  if (python.error) {
    Finding finding = refused("python", *python.error, kInstall);
    finding.is_warning = true;
    return finding;
  }
  Finding finding{.subject = "python", .seen = python.program, .remedy = ""};
  if (python.unknown_why) {
    finding.seen += " is a script that starts an unknown Python: " + python.unknown_why->detail;
    finding.remedy =
        "run it to find out why, set PYTHON_EXEC to that Python, or give a longer --limit";
    finding.is_warning = true;
    return finding;
  }
  if (!python.starts.empty()) finding.seen += ", which starts " + python.starts;
  if (!python.version.empty()) finding.seen += fmt::format(" ({})", python.version);
  if (python.torch.empty()) {
    finding.seen += " has no torch";
    finding.remedy = kInstall;
    finding.is_warning = true;
    return finding;
  }
  finding.seen += fmt::format(", torch {}", python.torch);
  if (python.cuda.empty()) {
    if (python.gpus == 0) return finding;
    finding.seen += fmt::format(", built without CUDA; GPUs here: {}", python.gpus);
    finding.remedy = "install a build of torch with CUDA";
    return finding;
  }
  finding.seen += fmt::format(", CUDA {}", python.cuda);
  if (!python.nccl.empty()) finding.seen += fmt::format(", NCCL {}", python.nccl);
  const int driver_min = driver_for(python.cuda);
  if (python.gpus > 0 && python.driver && *python.driver < driver_min) {
    finding.seen += fmt::format(", but the driver is {}", *python.driver);
    finding.remedy =
        fmt::format("install driver {} or later, or a torch for an older CUDA", driver_min);
  }
  return finding;
}

Finding judge_port(const Port& port) {
  std::string subject = fmt::format("port {}", port.number);
  constexpr char kOther[] = "choose another port (--master-port)";
  if (!port.error) return {.subject = std::move(subject), .seen = "free", .remedy = ""};
  if (port.job) {
    return {
        .subject = std::move(subject),
        .seen = fmt::format(
            "{} is running here{}{}; a second job on this node needs another port (--master-port)",
            name_of_job(*port.job),
            port.owner.empty() ? "" : ": ",
            port.owner),
        .remedy = ""};
  }
  if (port.owner.empty()) return refused(std::move(subject), *port.error, kOther);
  return {
      .subject = std::move(subject),
      .seen = "taken by " + port.owner,
      .remedy = fmt::format("stop it, or {}", kOther)};
}

std::string name_of_job(const std::string& id) {
  return id.empty() ? "a job" : fmt::format("job '{}'", id);
}

Finding judge_clock(const KernelClock& clock) {
  Finding finding{.subject = "clock", .seen = "", .remedy = ""};
  if (clock.is_synchronised) {
    finding.seen = fmt::format("synchronised, within {:.3f} s", clock.error_s);
  } else {
    finding.seen = "not synchronised, as the kernel reports";
    finding.remedy = "run chronyd, ntpd or systemd-timesyncd on this machine";
    finding.is_warning = true;
  }
  return finding;
}

}  // namespace ddprun
