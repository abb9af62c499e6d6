#include "agent/memory_log.hpp"

#include "agent/descendants.hpp"
#include "base/file.hpp"
#include "base/log.hpp"

#include <fmt/format.h>

#include <chrono>
#include <ctime>
#include <string>
#include <utility>

#include <sys/resource.h>
#include <unistd.h>

namespace ddprun {
namespace {

constexpr std::size_t kStatBytesMax = 4096;

Duration duration_of(const timeval& time) {
  return std::chrono::seconds(time.tv_sec) + std::chrono::microseconds(time.tv_usec);
}

/// All workers and their descendants.
ProcessSample sample_workers() {
  const KernelUnits units{
      .ticks_per_second = ::sysconf(_SC_CLK_TCK), .page_bytes = ::sysconf(_SC_PAGESIZE)};
  ProcessSample all;
  for (const pid_t pid : descendants_of(::getpid(), Search::kQuick)) {
    const auto text = read_file(fmt::format("/proc/{}/stat", pid), kStatBytesMax);
    const auto process = text ? parse_process(*text, units) : std::nullopt;
    if (process) all += *process;  // else it has just ended
  }
  rusage ended{};  // children that were reaped
  if (::getrusage(RUSAGE_CHILDREN, &ended) == 0) {
    all.cpu += duration_of(ended.ru_utime) + duration_of(ended.ru_stime);
  }
  return all;
}

std::string wall_clock() {
  using std::chrono::system_clock;
  const auto now = system_clock::now();
  const auto second = std::chrono::floor<std::chrono::seconds>(now);
  const std::time_t time = system_clock::to_time_t(second);
  std::tm local{};
  ::localtime_r(&time, &local);
  const auto part = std::chrono::duration_cast<std::chrono::milliseconds>(now - second);
  return timestamp_text(local, static_cast<int>(part.count()));
}

Result<void> open_into(
    std::unique_ptr<RowFile>& file, const std::string& path, std::string_view header) {
  auto opened = RowFile::open(path, header);
  if (!opened) return opened.error();
  file = std::make_unique<RowFile>(*std::move(opened));
  return {};
}

}  // namespace

MemoryLog::MemoryLog(bool wants_gpus, MemoryLogPaths paths)
    : wants_gpus_(wants_gpus), paths_(std::move(paths)), rows_(Clock::now()) {}

void MemoryLog::sample() {
  if (has_ended_) return;
  auto done = cpu_memory_ ? Result<void>() : open();
  if (done) done = write();
  if (done) return;
  spdlog::warn("--memory-log: {}; no more samples are taken, the job goes on", done.error().detail);
  close();
}

void MemoryLog::close() {
  has_ended_ = true;
  cpu_memory_.reset();
  gpu_memory_.reset();
  gpu_usage_.reset();
  nvml_.reset();
}

Result<void> MemoryLog::open() {
  auto opened = open_into(cpu_memory_, paths_.cpu_memory, kCpuMemoryHeader);
  if (!opened) return opened;
  auto nvml = NvmlLibrary::load();
  if (!nvml) {
    const auto level = wants_gpus_ ? spdlog::level::warn : spdlog::level::info;
    spdlog::log(level, "--memory-log: GPUs are not sampled: {}", nvml.error().detail);
    return {};
  }
  nvml_ = *std::move(nvml);
  opened = open_into(gpu_memory_, paths_.gpu_memory, kGpuMemoryHeader);
  if (opened) opened = open_into(gpu_usage_, paths_.gpu_usage, kGpuUsageHeader);
  return opened;
}

Result<void> MemoryLog::write() {
  auto written = cpu_memory_->append(rows_.next(sample_workers(), Clock::now()));
  if (!written || !nvml_) return written;
  const std::string now = wall_clock();
  const auto gpus = nvml_->sample();
  written = gpu_memory_->append(gpu_memory_rows(now, gpus));
  if (written) written = gpu_usage_->append(gpu_usage_rows(now, gpus));
  return written;
}

}  // namespace ddprun
