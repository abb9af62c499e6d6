#pragma once

// The files of --memory-log: their names, and the text of their rows. The names and columns of the
// memory files are those of KAUST's workshop on distributed training.
// launcher/ctl/reports/core/memory_log.hpp reads them.
//
//   DIR/gpu_memory/JOB/gpu_memory_log.csv    MiB of each GPU
//   DIR/gpu_usage/JOB/gpu_usage_log.csv      temperature, power and utilisation of each GPU
//   DIR/cpu_memory/JOB/cpu_memory_log.txt    what all workers and their children use together
//
// JOB is the run id. In a job of several nodes each has its own files: gpu_memory_log_HOST.csv.

#include "agent/core/launch_plan.hpp"
#include "base/time.hpp"

#include <cstdint>
#include <ctime>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace ddprun {

inline constexpr std::string_view kGpuMemoryHeader =
    "timestamp, index, name, memory.used [MiB], memory.total [MiB]\n";
inline constexpr std::string_view kGpuUsageHeader =
    "timestamp, index, name, temp_c, power_w, gpu_percent, memory_percent\n";
inline constexpr std::string_view kCpuMemoryHeader =
    "#  elapsed_s  cpu_percent      real_mb   virtual_mb\n";

struct MemoryLogPaths {
  std::string gpu_memory;
  std::string gpu_usage;
  std::string cpu_memory;
};

MemoryLogPaths memory_log_paths(const LaunchPlan& plan, std::string_view host);

/// "2025/06/01 10:00:00.123".
std::string timestamp_text(const std::tm& local, int milliseconds);

/// One GPU now. None: the driver does not report the value.
struct GpuSample {
  unsigned index = 0;  // among those of the machine
  std::string name;
  struct Memory {
    std::uint64_t used_bytes = 0;
    std::uint64_t total_bytes = 0;
  };
  std::optional<Memory> memory;
  std::optional<unsigned> temperature_c;
  std::optional<double> power_w;
  struct Utilisation {
    unsigned gpu_percent = 0;  // of the time since the driver's last sample in which a kernel ran
    unsigned memory_percent = 0;  // the same for reading or writing memory
  };
  std::optional<Utilisation> utilisation;
};

/// A row for each GPU whose memory is known.
std::string gpu_memory_rows(std::string_view timestamp, std::span<const GpuSample> gpus);

/// A row for each GPU. An unknown value is an empty field.
std::string gpu_usage_rows(std::string_view timestamp, std::span<const GpuSample> gpus);

/// One process, or the sum of several.
struct ProcessSample {
  Duration cpu{};  // used so far, including reaped children
  std::int64_t real_bytes = 0;
  std::int64_t virtual_bytes = 0;

  ProcessSample& operator+=(const ProcessSample& other);
  bool operator==(const ProcessSample&) const = default;
};

/// The kernel's units.
struct KernelUnits {
  std::int64_t ticks_per_second = 100;
  std::int64_t page_bytes = 4096;
};

/// From /proc/PID/stat; none if `text` is not of that form.
std::optional<ProcessSample> parse_process(std::string_view text, KernelUnits units);

/// From /proc/PID/smaps_rollup: memory in bytes, of which what several processes share counts for
/// each in equal parts. None if `text` is not of that form.
std::optional<std::int64_t> parse_proportional(std::string_view text);

/// The rows of cpu_memory_log.txt.
class CpuRows {
 public:
  explicit CpuRows(TimePoint begin) : begin_(begin) {}

  /// Seconds since the start, CPU in percent of one processor since the previous row (0 in the
  /// first), and memory in MB of 2^20 bytes. `tree.cpu` includes all processes that have ended.
  std::string next(const ProcessSample& tree, TimePoint now);

 private:
  TimePoint begin_;
  std::optional<TimePoint> before_;
  Duration cpu_before_{};
};

}  // namespace ddprun
