#pragma once

// `ddpctl analyze-memory`, and the search for logs that it shares with `ddpctl scaling-report`.

#include "base/error.hpp"
#include "launcher/ctl/reports/core/memory_log.hpp"

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace ddprun {

struct MemoryOptions {
  std::string job;         // name of its log directory
  std::string path = ".";  // where gpu_memory/ and cpu_memory/ are
  bool gpu_only = false;   // at most one of these two
  bool cpu_only = false;
  bool skip_warmup = false;
  bool strict = false;  // a missing log is an error
};

/// Prints the memory use of the job's GPUs and processes. With options.strict, fails with kCorrupt
/// after printing everything if a log is missing or invalid.
Result<void> analyze_memory(const MemoryOptions& options);

/// PATH/gpu_memory/JOB/*.csv by name. Fails with kNotFound if there is none.
Result<std::vector<std::filesystem::path>> find_gpu_logs(
    const std::filesystem::path& path, const std::string& job);

/// Fails as read_file() and parse_gpu_log() do, with the path.
Result<std::map<std::int64_t, MemorySamples>> read_gpu_log(const std::filesystem::path& path);

}  // namespace ddprun
