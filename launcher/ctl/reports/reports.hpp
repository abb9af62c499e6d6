#pragma once

// `ddpctl analyze-memory` and `ddpctl scaling-report`.

#include "base/error.hpp"
#include "launcher/ctl/reports/core/memory_log.hpp"

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace CLI {  // NOLINT(readability-identifier-naming): CLI11 has named it
class App;
}  // namespace CLI

namespace ddprun {

struct MemoryOptions {
  std::string job;         // name of its log directory
  std::string path = ".";  // where gpu_memory/ and cpu_memory/ are
  bool gpu_only = false;   // at most one of these two
  bool cpu_only = false;
  bool skip_warmup = false;
  bool strict = false;  // a missing log is an error
};

struct ScalingOptions {
  std::vector<std::string> logs;
  std::string path = ".";  // where gpu_memory/ is
  int epoch = 3;           // from 1
  bool strict = false;     // a missing log is an error
};

void add_memory(CLI::App& app, MemoryOptions& options);
void add_scaling(CLI::App& app, ScalingOptions& options);

/// Prints the memory use of the job's GPUs and processes, and a line for each log that is missing
/// or invalid. With options.strict, fails with kCorrupt after printing if there was such a line.
Result<void> analyze_memory(const MemoryOptions& options);

/// Prints such lines first, then the tables. Fails as analyze_memory() does.
Result<void> report_scaling(const ScalingOptions& options);

/// A report, and how many logs could not be read for it.
struct Report {
  std::string text;
  int missed = 0;

  /// A line about such a log.
  void miss(const Error& error);

  /// Fails with kCorrupt if there was one and the report is `strict`.
  Result<void> print(bool strict) const;
};

/// The most that is read of a log: eight GPUs, one row of each every five seconds, for a month.
inline constexpr std::size_t kLogBytesMax = std::size_t{256} << 20U;

/// PATH/gpu_memory/JOB/*.csv by name. Fails with kNotFound if there is none.
Result<std::vector<std::filesystem::path>> find_gpu_logs(
    const std::filesystem::path& path, const std::string& job);

/// Fails as read_file() and parse_gpu_log() do, with the path.
Result<std::map<std::int64_t, MemorySamples>> read_gpu_log(const std::filesystem::path& path);

}  // namespace ddprun
