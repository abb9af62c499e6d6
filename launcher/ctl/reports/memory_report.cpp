#include "base/file.hpp"
#include "base/format_error.hpp"
#include "base/standard_streams.hpp"
#include "launcher/ctl/reports/reports.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <system_error>

namespace ddprun {
namespace {

namespace fs = std::filesystem;

/// Files with this prefix and extension, by name; empty if the directory does not exist.
std::vector<fs::path> logs_in(
    const fs::path& directory, std::string_view beginning, std::string_view extension) {
  std::vector<fs::path> logs;
  std::error_code error;
  fs::directory_iterator entries(directory, error);
  for (; !error && entries != fs::directory_iterator(); entries.increment(error)) {
    const fs::path& file = entries->path();
    const bool begins_so = file.filename().string().starts_with(beginning);
    if (begins_so && file.extension() == extension) logs.push_back(file);
  }
  std::ranges::sort(logs);
  return logs;
}

class MemoryReport {
 public:
  explicit MemoryReport(const MemoryOptions& options)
      : options_(options),
        warmup_(options.skip_warmup ? Warmup::kLeftOut : Warmup::kCounted),
        report_{
            .text = fmt::format(
                "Analyzing logs for job ID: {} under {}\n", options.job, options.path)} {}

  void add_gpus() {
    const auto logs = find_gpu_logs(options_.path, options_.job);
    if (!logs) return report_.miss(logs.error());
    report_.text += "\nGPU Memory Usage\n";
    for (const fs::path& log : *logs) {
      const auto gpus = read_gpu_log(log);
      if (!gpus) {
        report_.miss(gpus.error());
        continue;
      }
      for (const auto& [gpu, samples] : *gpus) {
        report_.text += gpu_use_line(log.stem().string(), gpu, memory_use(samples, warmup_));
      }
    }
  }

  void add_cpus() {
    const fs::path directory = fs::path(options_.path) / "cpu_memory" / options_.job;
    const fs::path of_one_node = directory / "cpu_memory_log.txt";
    const auto logs = logs_in(directory, "cpu_memory_log", ".txt");
    if (logs.empty()) {
      return report_.miss(
          format_error(Errc::kNotFound, "CPU log not found: {}", of_one_node.string()));
    }
    std::string uses;
    for (const fs::path& log : logs) {
      const auto text = read_file(log, kLogBytesMax);
      const auto samples = text ? parse_cpu_log(*text) : text.error();
      if (!samples) {
        report_.miss(with_context("Failed to read " + log.string(), samples.error()));
        continue;
      }
      if (log != of_one_node) uses += fmt::format("[{}]\n", log.stem().string());
      uses += cpu_use_lines(memory_use(*samples, warmup_));
    }
    if (!uses.empty()) report_.text += "\nCPU Memory Usage\n" + uses;
  }

  const Report& report() const { return report_; }

 private:
  const MemoryOptions& options_;
  Warmup warmup_;
  Report report_;
};

}  // namespace

Result<void> analyze_memory(const MemoryOptions& options) {
  MemoryReport report(options);
  if (!options.cpu_only) report.add_gpus();
  if (!options.gpu_only) report.add_cpus();
  return report.report().print(options.strict);
}

void Report::miss(const Error& error) {
  text += fmt::format("[!] {}\n", error.detail);
  ++missed;
}

Result<void> Report::print(bool strict) const {
  auto written = write_stdout(text);
  if (!written || !strict || missed == 0) return written;
  return format_error(Errc::kCorrupt, "{} logs are missing or cannot be read (--strict)", missed);
}

Result<std::vector<fs::path>> find_gpu_logs(const fs::path& path, const std::string& job) {
  const fs::path directory = path / "gpu_memory" / job;
  auto logs = logs_in(directory, "", ".csv");
  if (!logs.empty()) return logs;
  std::error_code error;
  const char* const what =
      fs::is_directory(directory, error) ? "No GPU logs found in" : "GPU log directory not found:";
  return format_error(Errc::kNotFound, "{} {}", what, directory.string());
}

Result<std::map<std::int64_t, MemorySamples>> read_gpu_log(const fs::path& path) {
  const auto text = read_file(path, kLogBytesMax);
  auto samples = text ? parse_gpu_log(*text) : text.error();
  if (samples) return samples;
  return format_error(
      Errc::kCorrupt, "Failed to read {}: {}", path.string(), samples.error().detail);
}

}  // namespace ddprun
