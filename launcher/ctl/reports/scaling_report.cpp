#include "base/file.hpp"
#include "launcher/ctl/reports/core/scaling.hpp"
#include "launcher/ctl/reports/reports.hpp"

#include <fmt/format.h>

#include <filesystem>
#include <optional>
#include <utility>

namespace ddprun {
namespace {

Result<ScalingRun> read_run(const std::string& log, int epoch) {
  const std::string name = std::filesystem::path(log).filename().string();
  auto job = parse_log_name(name);
  if (!job) return job.error();
  const auto text = read_file(log, kLogBytesMax);
  if (!text) return text.error();
  auto result = find_epoch(*text, epoch, *job);
  if (!result) return with_context(log, result.error());
  return ScalingRun{.job = *std::move(job), .epoch = *result, .memory = std::nullopt};
}

/// Memory use of GPU 0 of the first node by name.
Result<MemoryUse> read_memory(const std::string& path, const std::string& job) {
  const auto logs = find_gpu_logs(path, job);
  if (!logs) return logs.error();
  const auto gpus = read_gpu_log(logs->front());
  if (!gpus) return gpus.error();
  const auto first = gpus->find(0);
  if (first != gpus->end()) return memory_use(first->second, Warmup::kCounted);
  return make_error(Errc::kNotFound, fmt::format("No GPU 0 in {}", logs->front().string()));
}

}  // namespace

Result<void> report_scaling(const ScalingOptions& options) {
  std::vector<ScalingRun> runs;
  Report report;
  for (const std::string& log : options.logs) {
    auto run = read_run(log, options.epoch);
    if (!run) {
      report.miss(run.error());
      continue;
    }
    auto memory = read_memory(options.path, run->job.id);
    if (memory) {
      run->memory = *std::move(memory);
    } else {
      report.miss(memory.error());
    }
    runs.push_back(*std::move(run));
  }
  report.text += scaling_tables(std::move(runs), options.epoch);
  return report.print(options.strict);
}

}  // namespace ddprun
