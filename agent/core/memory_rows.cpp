#include "agent/core/memory_rows.hpp"

#include "agent/core/file_name.hpp"
#include "base/parse.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace ddprun {
namespace {

constexpr double kMiB = 1024.0 * 1024.0;

/// A field of a table whose fields are separated by commas.
std::string field(std::string text) {
  std::ranges::replace_if(
      text, [](char c) { return c == ',' || c == '\n' || c == '\r'; }, ' ');
  return text;
}

std::uint64_t whole_mib(std::uint64_t bytes) {
  return bytes >> 20U;
}

}  // namespace

MemoryLogPaths memory_log_paths(const LaunchPlan& plan, std::string_view host) {
  const std::string suffix = plan.shares_logs ? "_" + as_file_name(host) : std::string();
  const auto path = [&](std::string_view kind, std::string_view extension) {
    return fmt::format(
        "{0}/{1}/{2}/{1}_log{3}{4}",
        plan.memory_log.directory,
        kind,
        as_file_name(plan.job_for_people()),
        suffix,
        extension);
  };
  return {
      .gpu_memory = path("gpu_memory", ".csv"),
      .gpu_usage = path("gpu_usage", ".csv"),
      .cpu_memory = path("cpu_memory", ".txt")};
}

std::string timestamp_text(const std::tm& local, int milliseconds) {
  return fmt::format(
      "{:04}/{:02}/{:02} {:02}:{:02}:{:02}.{:03}",
      local.tm_year + 1900,
      local.tm_mon + 1,
      local.tm_mday,
      local.tm_hour,
      local.tm_min,
      local.tm_sec,
      milliseconds);
}

std::string gpu_memory_rows(std::string_view timestamp, std::span<const GpuSample> gpus) {
  std::string rows;
  for (const GpuSample& gpu : gpus) {
    if (!gpu.memory) continue;
    rows += fmt::format(
        "{}, {}, {}, {}, {}\n",
        timestamp,
        gpu.index,
        field(gpu.name),
        whole_mib(gpu.memory->used_bytes),
        whole_mib(gpu.memory->total_bytes));
  }
  return rows;
}

std::string gpu_usage_rows(std::string_view timestamp, std::span<const GpuSample> gpus) {
  std::string rows;
  for (const GpuSample& gpu : gpus) {
    rows += fmt::format("{}, {}, {}, ", timestamp, gpu.index, field(gpu.name));
    if (gpu.temperature_c) rows += std::to_string(*gpu.temperature_c);
    rows += ", ";
    if (gpu.power_w) rows += fmt::format("{:.2f}", *gpu.power_w);
    rows += ", ";
    if (const auto& use = gpu.utilisation) {
      rows += fmt::format("{}, {}\n", use->gpu_percent, use->memory_percent);
    } else {
      rows += ", \n";
    }
  }
  return rows;
}

ProcessSample& ProcessSample::operator+=(const ProcessSample& other) {
  cpu += other.cpu;
  real_bytes += other.real_bytes;
  virtual_bytes += other.virtual_bytes;
  return *this;
}

std::optional<ProcessSample> parse_process(std::string_view text, KernelUnits units) {
  // Counted from the state, the third field of proc(5): before it comes the process's name in
  // parentheses, which may contain any byte.
  constexpr std::size_t kFirstTime = 11;  // utime, stime, cutime, cstime
  constexpr std::size_t kLastTime = 14;
  constexpr std::size_t kVirtual = 20;
  constexpr std::size_t kReal = 21;
  const std::size_t end_of_name = text.rfind(')');
  if (end_of_name == std::string_view::npos) return std::nullopt;
  const auto fields = split(trim(text.substr(end_of_name + 1)), ' ');
  if (fields.size() <= kReal) return std::nullopt;
  const auto number = [&](std::size_t at) { return parse_int<std::int64_t>(fields[at]); };

  ProcessSample process;
  for (std::size_t at = kFirstTime; at <= kLastTime; ++at) {
    const auto ticks = number(at);
    if (!ticks) return std::nullopt;
    process.cpu += *ticks * (Duration(std::chrono::seconds(1)) / units.ticks_per_second);
  }
  const auto virtual_bytes = number(kVirtual);
  const auto pages = number(kReal);
  if (!virtual_bytes || !pages) return std::nullopt;
  process.virtual_bytes = *virtual_bytes;
  process.real_bytes = *pages * units.page_bytes;
  return process;
}

std::optional<std::int64_t> parse_proportional(std::string_view text) {
  for (std::string_view line : split(text, '\n')) {
    constexpr std::string_view kName = "Pss:";
    constexpr std::string_view kUnit = " kB";
    if (!line.starts_with(kName) || !line.ends_with(kUnit)) continue;
    line.remove_prefix(kName.size());
    line.remove_suffix(kUnit.size());
    const auto kib = parse_int<std::int64_t>(trim(line));
    return kib ? std::optional(*kib << 10U) : std::nullopt;
  }
  return std::nullopt;
}

std::string CpuRows::next(const ProcessSample& tree, TimePoint now) {
  // The CPU time of a process that has ended is missing until its parent has reaped it.
  const Duration cpu = std::max(tree.cpu, cpu_before_);
  const bool has_past = before_ && now > *before_;
  const double percent =
      has_past ? 100.0 * to_seconds(cpu - cpu_before_) / to_seconds(now - *before_) : 0.0;
  before_ = now;
  cpu_before_ = cpu;
  return fmt::format(
      "{:12.3f} {:12.3f} {:12.3f} {:12.3f}\n",
      to_seconds(now - begin_),
      percent,
      static_cast<double>(tree.real_bytes) / kMiB,
      static_cast<double>(tree.virtual_bytes) / kMiB);
}

}  // namespace ddprun
