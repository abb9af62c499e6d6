#include "launcher/ctl/reports/memory_report.hpp"

#include "base/file.hpp"
#include "base/format_error.hpp"
#include "base/standard_streams.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <system_error>

namespace ddprun {
namespace {

namespace fs = std::filesystem;

// Eight GPUs, one row of each every five seconds, for a month.
constexpr std::size_t kLogBytesMax = std::size_t{256} << 20U;

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

/// The printed text, and how many of its lines report a missing or unreadable log.
class Report {
 public:
  explicit Report(const MemoryOptions& options)
      : options_(options),
        warmup_(options.skip_warmup ? Warmup::kLeftOut : Warmup::kCounted),
        text_(fmt::format("Analyzing logs for job ID: {} under {}\n", options.job, options.path)) {}

  void add_gpus() {
    const auto logs = find_gpu_logs(options_.path, options_.job);
    if (!logs) return miss(logs.error().detail);
    text_ += "\nGPU Memory Usage\n";
    for (const fs::path& log : *logs) {
      const auto gpus = read_gpu_log(log);
      if (!gpus) {
        miss(gpus.error().detail);
        continue;
      }
      for (const auto& [gpu, samples] : *gpus) {
        text_ += gpu_use_line(log.stem().string(), gpu, memory_use(samples, warmup_));
      }
    }
  }

  void add_cpus() {
    const fs::path directory = fs::path(options_.path) / "cpu_memory" / options_.job;
    const fs::path of_one_node = directory / "cpu_memory_log.txt";
    const auto logs = logs_in(directory, "cpu_memory_log", ".txt");
    if (logs.empty()) return miss(fmt::format("CPU log not found: {}", of_one_node.string()));
    std::string uses;
    for (const fs::path& log : logs) {
      const auto text = read_file(log, kLogBytesMax);
      const auto samples = text ? parse_cpu_log(*text) : text.error();
      if (!samples) {
        miss(fmt::format("Failed to read {}: {}", log.string(), samples.error().detail));
        continue;
      }
      if (log != of_one_node) uses += fmt::format("[{}]\n", log.stem().string());
      uses += cpu_use_lines(memory_use(*samples, warmup_));
    }
    if (!uses.empty()) text_ += "\nCPU Memory Usage\n" + uses;
  }

  const std::string& text() const { return text_; }
  int missed() const { return missed_; }

 private:
  void miss(const std::string& what) {
    text_ += fmt::format("[!] {}\n", what);
    ++missed_;
  }

  const MemoryOptions& options_;
  Warmup warmup_;
  std::string text_;
  int missed_ = 0;
};

}  // namespace

Result<void> analyze_memory(const MemoryOptions& options) {
  Report report(options);
  if (!options.cpu_only) report.add_gpus();
  if (!options.gpu_only) report.add_cpus();
  auto told = write_stdout(report.text());
  if (!told || !options.strict || report.missed() == 0) return told;
  return format_error(
      Errc::kCorrupt, "{} logs are missing or cannot be read (--strict)", report.missed());
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
