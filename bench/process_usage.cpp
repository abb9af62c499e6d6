#include "bench/process_usage.hpp"

#include "base/file.hpp"
#include "base/parse.hpp"

#include <fmt/format.h>

#include <filesystem>

#include <unistd.h>

namespace ddprun {
namespace {

constexpr std::size_t kProcFileBytesMax = 4096;

Error no_such(pid_t pid) {
  return make_error(Errc::kNotFound, fmt::format("{}: no such process", pid));
}

}  // namespace

Result<Duration> cpu_time_of(pid_t pid) {
  const std::filesystem::path tasks = fmt::format("/proc/{}/task", pid);
  std::error_code error;
  std::filesystem::directory_iterator task(tasks, error);
  if (error) return no_such(pid);
  Duration total{};
  for (; task != std::filesystem::directory_iterator(); task.increment(error)) {
    const auto text = read_file(task->path() / "schedstat", kProcFileBytesMax);
    if (!text) continue;  // this thread has just ended
    const auto on_cpu = parse_int<std::int64_t>(split(*text, ' ').front());
    if (on_cpu) total += std::chrono::nanoseconds(*on_cpu);
  }
  return total;
}

Result<std::int64_t> resident_bytes_of(pid_t pid) {
  const auto text = read_file(fmt::format("/proc/{}/statm", pid), kProcFileBytesMax);
  if (!text) return no_such(pid);
  const auto fields = split(*text, ' ');
  const auto pages = fields.size() < 2 ? std::nullopt : parse_int<std::int64_t>(fields[1]);
  if (!pages) return no_such(pid);
  return *pages * ::sysconf(_SC_PAGESIZE);
}

}  // namespace ddprun
