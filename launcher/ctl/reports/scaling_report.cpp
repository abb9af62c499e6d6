#include "launcher/ctl/reports/scaling_report.hpp"

#include "base/file.hpp"
#include "base/standard_streams.hpp"
#include "launcher/ctl/reports/core/scaling.hpp"
#include "launcher/ctl/reports/memory_report.hpp"

#include <fmt/format.h>

#include <filesystem>
#include <optional>
#include <utility>

namespace ddprun {
namespace {

constexpr std::size_t kLogBytesMax = std::size_t{256} << 20U;

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
  std::string text;
  int missed = 0;
  const auto miss = [&text, &missed](const Error& what) {
    text += fmt::format("[!] {}\n", what.detail);
    ++missed;
  };
  for (const std::string& log : options.logs) {
    auto run = read_run(log, options.epoch);
    if (!run) {
      miss(run.error());
      continue;
    }
    auto memory = read_memory(options.path, run->job.id);
    if (memory) {
      run->memory = *std::move(memory);
    } else {
      miss(memory.error());
    }
    runs.push_back(*std::move(run));
  }
  auto told = write_stdout(text + scaling_tables(std::move(runs), options.epoch));
  if (!told || !options.strict || missed == 0) return told;
  return make_error(
      Errc::kCorrupt, fmt::format("{} logs are missing or cannot be read (--strict)", missed));
}

}  // namespace ddprun
