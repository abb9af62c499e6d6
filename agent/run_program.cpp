#include "agent/run_program.hpp"

#include "base/descriptor.hpp"
#include "base/environment.hpp"
#include "base/file.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <utility>

#include <fcntl.h>
#include <poll.h>
#include <signal.h>  // NOLINT(modernize-deprecated-headers): kill is POSIX
#include <sys/wait.h>
#include <unistd.h>

namespace ddprun {
namespace {

using namespace std::chrono_literals;

constexpr Duration kWaitMax = 1min;
constexpr Duration kWaitMaxWithoutPidfd = 10ms;  // nothing else reports the end

Result<Process> start(SpawnRequest request) {
  std::string& program = request.command.front();
  if (program.find('/') == std::string::npos) {
    std::string found = find_on_path({program}, current_environment());
    if (found.empty()) {
      return make_error(Errc::kNotFound, fmt::format("there is no {} on PATH", program));
    }
    program = std::move(found);
  }
  return spawn(request);
}

/// False if it still runs, which `options` 0 waits for.
bool reap(pid_t pid, int options, ProcessEnd& end) {
  int status = 0;
  pid_t reaped = 0;
  do {
    reaped = ::waitpid(pid, &status, options);
  } while (reaped < 0 && errno == EINTR);
  if (reaped == pid) end = end_of(status);
  return reaped != 0;
}

/// Appends what a pipe holds. False at its end.
bool read_some(int pipe, std::string& text) {
  std::array<char, 16'384> piece{};
  const ssize_t got = ::read(pipe, piece.data(), piece.size());
  if (got > 0) text.append(piece.data(), static_cast<std::size_t>(got));
  return got > 0 || (got < 0 && errno == EINTR);
}

/// Reads both pipes until the process has ended and been reaped.
Result<ProgramEnd> follow(
    const Process& process, int out, int err, TimePoint deadline, std::size_t bytes_max) {
  ProgramEnd ended;
  bool has_ended = false;
  std::array<pollfd, 3> watched{};
  watched[0] = {.fd = out, .events = POLLIN, .revents = 0};
  watched[1] = {.fd = err, .events = POLLIN, .revents = 0};
  watched[2] = {.fd = process.pidfd.get(), .events = POLLIN, .revents = 0};
  for (;;) {
    if (!has_ended && reap(process.pid, WNOHANG, ended.end)) {
      has_ended = true;
      watched[2].fd = -1;
    }
    Duration wait = process.pidfd ? kWaitMax : kWaitMaxWithoutPidfd;
    wait = has_ended ? 0s : std::clamp<Duration>(deadline - Clock::now(), 0s, wait);
    const auto wait_ms = std::chrono::ceil<std::chrono::milliseconds>(wait).count();
    const int ready = ::poll(watched.data(), watched.size(), static_cast<int>(wait_ms));
    if (ready < 0 && errno == EINTR) continue;
    // What it wrote before it ended was in the pipes by then.
    if (ready == 0 && has_ended) return ended;
    if (watched[0].revents != 0 && !read_some(out, ended.out)) watched[0].fd = -1;
    if (watched[1].revents != 0 && !read_some(err, ended.err)) watched[1].fd = -1;
    const bool is_too_long = ended.out.size() + ended.err.size() > bytes_max;
    if (!is_too_long && Clock::now() < deadline) continue;
    if (!has_ended) {
      ::kill(-process.pid, SIGKILL);  // it leads the group
      reap(process.pid, 0, ended.end);
    }
    if (!is_too_long) return make_error(Errc::kTimedOut, "it did not end in time");
    return make_error(Errc::kLimit, fmt::format("it printed more than {} bytes", bytes_max));
  }
}

}  // namespace

SpawnRequest request_for(std::vector<std::string> command, std::vector<std::string> settings) {
  SpawnRequest request;
  request.command = std::move(command);
  request.environment = environment_entries(std::move(settings));
  return request;
}

Result<ProgramEnd> run_program(SpawnRequest request, TimePoint deadline, std::size_t bytes_max) {
  const Descriptor nothing = open_file("/dev/null", O_RDONLY | O_CLOEXEC);
  if (!nothing) return make_errno_error(errno, "/dev/null");
  auto out = make_pipe();
  if (!out) return out.error();
  auto err = make_pipe();
  if (!err) return err.error();
  request.in = nothing.get();
  request.out = out->write_end.get();
  request.err = err->write_end.get();
  const auto process = start(request);
  if (!process) return process.error();
  out->write_end.reset();
  err->write_end.reset();
  auto ended = follow(*process, out->read_end.get(), err->read_end.get(), deadline, bytes_max);
  if (!ended) return with_context(request.command.front(), ended.error());
  return ended;
}

Result<ProcessEnd> run_in_foreground(SpawnRequest request) {
  request.foreground = true;
  const auto process = start(std::move(request));
  if (!process) return process.error();
  ProcessEnd end;
  reap(process->pid, 0, end);
  return end;
}

}  // namespace ddprun
