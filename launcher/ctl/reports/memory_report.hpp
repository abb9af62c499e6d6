#pragma once

// `ddpctl analyze-memory`, and the logs that `ddpctl scaling-report` reads as well.

#include "base/error.hpp"
#include "launcher/ctl/reports/core/memory_log.hpp"

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace ddprun {

struct MemoryOptions {
  std::string job;         // the name of its directory
  std::string path = ".";  // where gpu_memory/ and cpu_memory/ are
  bool gpu_only = false;   // not both
  bool cpu_only = false;
  bool skip_warmup = false;
  bool strict = false;  // a log that is missing is a failure
};

/// Prints the memory that the job's GPUs and processes took. Fails with kCorrupt, once all is
/// printed, if options.strict and a log is missing or wrong.
Result<void> analyze_memory(const MemoryOptions& options);

/// PATH/gpu_memory/JOB/*.csv by name. Fails with kNotFound where there is none, in one clause.
Result<std::vector<std::filesystem::path>> find_gpu_logs(
    const std::filesystem::path& path, const std::string& job);

/// Fails with what read_file() and parse_gpu_log() say, and the path.
Result<std::map<std::int64_t, MemorySamples>> read_gpu_log(const std::filesystem::path& path);

}  // namespace ddprun
