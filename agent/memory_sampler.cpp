#include "agent/memory_sampler.hpp"

#include "agent/core/memory_rows.hpp"
#include "agent/descendants.hpp"
#include "agent/nvml_library.hpp"
#include "base/check.hpp"
#include "base/descriptor.hpp"
#include "base/file.hpp"
#include "base/log.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <ctime>
#include <filesystem>
#include <optional>
#include <string>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

namespace ddprun {
namespace {

constexpr std::size_t kStatBytesMax = 4096;

constexpr mode_t kRowFileMode = 0666;  // less the umask, as for every program
// A FIFO in its place is refused, without waiting for a reader.
constexpr int kRowFileFlags = O_WRONLY | O_CREAT | O_APPEND | O_NONBLOCK | O_NOCTTY | O_CLOEXEC;

Error cannot_write(const std::filesystem::path& path, int errno_value) {
  return make_errno_error(errno_value, fmt::format("cannot write {}", path.string()));
}

/// A table on disk that grows by whole rows, across restarts of the job and even if the disk is
/// full now and then.
class RowFile {
 public:
  /// Creates the file and its directories if they are missing; an empty file gets `header`. Fails
  /// with kIo or kNotFound, naming the path, also if another process has it open as a RowFile.
  static Result<RowFile> open(const std::filesystem::path& path, std::string_view header);

  /// Appends all of `rows` or none. Fails with kIo, naming the path.
  Result<void> append(std::string_view rows);

 private:
  RowFile(Descriptor file, std::filesystem::path path)
      : file_(std::move(file)), path_(std::move(path)) {}

  Descriptor file_;
  std::filesystem::path path_;
};

Result<RowFile> RowFile::open(const std::filesystem::path& path, std::string_view header) {
  std::error_code failed;
  std::filesystem::create_directories(path.parent_path(), failed);
  if (failed) return cannot_write(path, failed.value());
  Descriptor file = open_file(path.c_str(), kRowFileFlags, kRowFileMode);
  struct stat about {};
  if (!file || ::fstat(file.get(), &about) != 0) return cannot_write(path, errno);
  if (!S_ISREG(about.st_mode)) {
    return make_error(Errc::kIo, fmt::format("cannot write {}: not a regular file", path.string()));
  }
  // If the file system has no locks, the check is skipped.
  if (::flock(file.get(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
    return make_error(
        Errc::kIo,
        fmt::format("another ddprun of this job's id on this host writes {}", path.string()));
  }
  RowFile opened(std::move(file), path);
  if (about.st_size > 0) return opened;
  auto const begun = opened.append(header);
  if (!begun) return begun.error();
  return opened;
}

Result<void> RowFile::append(std::string_view rows) {
  const off_t before = ::lseek(file_.get(), 0, SEEK_END);
  if (write_all(file_.get(), rows)) return {};
  Error error = cannot_write(path_, errno);
  // Half a row would spoil the rows of a later start. If this fails too, nothing more can be done.
  [[maybe_unused]] const int cut = ::ftruncate(file_.get(), before);
  return error;
}

Duration duration_of(const timeval& time) {
  return std::chrono::seconds(time.tv_sec) + std::chrono::microseconds(time.tv_usec);
}

/// What one process uses, as far as it shares the memory with others only its part. The kernel
/// walks all its pages for that, a second for 100 GB, and meanwhile it can map none.
std::optional<std::int64_t> proportional_bytes(pid_t pid) {
  const auto text = read_file(fmt::format("/proc/{}/smaps_rollup", pid), kStatBytesMax);
  return text ? parse_proportional(*text) : std::nullopt;
}

/// All workers and their descendants. `are_forked`: they share memory.
ProcessSample sample_workers(bool are_forked) {
  const KernelUnits units{
      .ticks_per_second = ::sysconf(_SC_CLK_TCK), .page_bytes = ::sysconf(_SC_PAGESIZE)};
  ProcessSample all;
  for (const pid_t pid : descendants_of(::getpid(), Search::kQuick)) {
    const auto text = read_file(fmt::format("/proc/{}/stat", pid), kStatBytesMax);
    auto process = text ? parse_process(*text, units) : std::nullopt;
    if (!process) continue;  // it has just ended
    if (are_forked) process->real_bytes = proportional_bytes(pid).value_or(process->real_bytes);
    all += *process;
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
    std::optional<RowFile>& file, const std::string& path, std::string_view header) {
  auto opened = RowFile::open(path, header);
  if (!opened) return opened.error();
  file = *std::move(opened);
  return {};
}

}  // namespace

/// Takes the samples and writes them. Disks, /proc and the driver of the GPUs may be slow, so all
/// of it runs on the separate thread.
///
/// If a file cannot be written, that is reported once and ends the sampling, never the job.
class MemoryLog {
 public:
  /// Opens nothing yet. Seconds count from now on.
  MemoryLog(const LaunchPlan& plan, std::string_view host)
      : wants_gpus_(plan.memory_log.wants_gpus),
        are_forked_(!plan.preload.empty()),
        paths_(memory_log_paths(plan, host)),
        rows_(Clock::now()) {}

  /// Samples every process below this one, and each GPU. The first call creates the files.
  void sample();

  /// Closes the files and releases the driver.
  void close();

  /// Whether nothing more can be written. Callable from any thread.
  bool has_ended() const { return has_ended_; }

 private:
  Result<void> open();
  Result<void> write();

  const bool wants_gpus_;
  const bool are_forked_;
  const MemoryLogPaths paths_;
  CpuRows rows_;
  std::optional<RowFile> cpu_memory_;
  std::optional<RowFile> gpu_memory_;
  std::optional<RowFile> gpu_usage_;
  std::unique_ptr<NvmlLibrary> nvml_;  // none: GPUs are not sampled
  std::atomic<bool> has_ended_ = false;
};

void MemoryLog::sample() {
  if (has_ended_) return;
  auto done = cpu_memory_ ? Result<void>() : open();
  if (done) done = write();
  if (done) return;
  spdlog::warn(
      "--memory-log: {}; no more samples are taken, the job continues", done.error().detail);
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
  DDPRUN_CHECK(cpu_memory_);
  auto written = cpu_memory_->append(rows_.next(sample_workers(are_forked_), Clock::now()));
  if (!written || !nvml_) return written;
  DDPRUN_CHECK(gpu_memory_ && gpu_usage_);
  const std::string now = wall_clock();
  const auto gpus = nvml_->sample();
  written = gpu_memory_->append(gpu_memory_rows(now, gpus));
  if (written) written = gpu_usage_->append(gpu_usage_rows(now, gpus));
  return written;
}

Result<std::unique_ptr<MemorySampler>> MemorySampler::start(
    asio::io_context& context, const LaunchPlan& plan, std::string_view host) {
  DDPRUN_CHECK(!plan.memory_log.directory.empty());
  auto thread = WriterThread::start("cannot start a thread for --memory-log");
  if (!thread) return thread.error();
  auto log = std::make_shared<MemoryLog>(plan, host);
  return std::unique_ptr<MemorySampler>(
      new MemorySampler(context, plan.memory_log.interval, std::move(log), *std::move(thread)));
}

MemorySampler::MemorySampler(
    asio::io_context& context,
    Duration interval,
    std::shared_ptr<MemoryLog> log,
    std::unique_ptr<WriterThread> thread)
    : timer_(context), interval_(interval), log_(std::move(log)), thread_(std::move(thread)) {}

MemorySampler::~MemorySampler() = default;

asio::awaitable<void> MemorySampler::run() {
  TimePoint due = Clock::now();
  while (!log_->has_ended()) {
    // If the previous sample still waits for its disk, this one is skipped, not queued.
    if (thread_->flush(Clock::now())) thread_->post([log = log_] { log->sample(); });
    due = std::max(due + interval_, Clock::now());
    timer_.expires_at(due);
    const auto [cancelled] = co_await timer_.async_wait(kTuple);
    if (cancelled) co_return;
  }
}

void MemorySampler::finish(TimePoint deadline) {
  thread_->post([log = log_] { log->close(); });
  static_cast<void>(thread_->flush(deadline));  // a disk that does not respond is abandoned
}

}  // namespace ddprun
