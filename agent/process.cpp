#include "agent/process.hpp"

#include "base/exit_status.hpp"
#include "base/file.hpp"
#include "base/parse.hpp"
#include "base/quiet_thread.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <limits>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

namespace ddprun {
namespace {

constexpr std::size_t kProcFileBytesMax = 1 << 16;

enum class SpawnStep : int {
  kNone,
  kSession,
  kParentDeath,
  kParentGone,
  kStreams,
  kAffinity,
  kExec
};

/// What a child that could not become the program says before it ends. It comes through a pipe
/// and not through the memory that vfork shares: emulators and TSan make a plain fork of it.
struct ChildNews {
  SpawnStep failed_at = SpawnStep::kNone;
  int errno_value = 0;
};

/// Pointers for execve into strings that somebody else owns.
std::vector<char*> pointers(const std::string* first, const std::vector<std::string>& rest) {
  std::vector<char*> out;
  out.reserve(rest.size() + 2);
  // execve takes char* const* for the sake of old C and changes nothing.
  if (first != nullptr) out.push_back(const_cast<char*>(first->c_str()));
  for (const auto& text : rest) {
    out.push_back(const_cast<char*>(text.c_str()));
  }
  out.push_back(nullptr);
  return out;
}

/// Handlers go with execve, but what is ignored (SIGPIPE, by us) would stay ignored in the worker.
void restore_signals(const std::vector<int>& ignored, int blocked) {
  for (int signal = 1; signal < NSIG; ++signal) {
    struct sigaction action {};
    if (::sigaction(signal, nullptr, &action) != 0 || action.sa_handler != SIG_IGN) continue;
    action.sa_handler = SIG_DFL;
    ::sigaction(signal, &action, nullptr);
  }
  for (const int signal : ignored) {
    struct sigaction action {};
    action.sa_handler = SIG_IGN;
    ::sigaction(signal, &action, nullptr);
  }
  sigset_t mask;
  ::sigemptyset(&mask);
  if (blocked != 0) ::sigaddset(&mask, blocked);
  ::sigprocmask(SIG_SETMASK, &mask, nullptr);
}

/// Those that execve would close, `last` at the end. Read in the parent: the child of a process
/// with threads may hardly do more than system calls.
std::vector<int> closed_by_exec(int last) {
  std::vector<int> found;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd", error)) {
    const int number = parse_int<int>(entry.path().filename().native()).value_or(last);
    const int flags = ::fcntl(number, F_GETFD);
    if (flags >= 0 && (flags & FD_CLOEXEC) != 0 && number != last) found.push_back(number);
  }
  found.push_back(last);
  return found;
}

/// In a child of its own memory, which is the worker already but for its program. Our sockets are
/// closed before the wait: held open here, their ends would never be seen. The last of them tells
/// the parent that this is done.
void wait_for_debugger(
    const std::vector<int>& to_close, const SpawnRequest& request, pid_t parent) {
  ::prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);  // where Yama allows parents alone
  for (const int descriptor : to_close) {
    if (std::ranges::find(request.keep, descriptor) == request.keep.end()) ::close(descriptor);
  }
  sigset_t awaited;
  ::sigemptyset(&awaited);
  ::sigaddset(&awaited, SIGUSR1);
  siginfo_t info{};
  while (::sigwaitinfo(&awaited, &info) < 0 && errno == EINTR) {}
  if (info.si_pid == parent) {
    ::signal(SIGUSR1, SIG_DFL);
    ::raise(SIGUSR1);  // comes when it is unblocked
  }
  ::sigprocmask(SIG_UNBLOCK, &awaited, nullptr);
}

/// dup2 onto itself would leave close-on-exec set.
bool put(int from, int to) {
  if (from < 0) return true;
  if (from != to) return ::dup2(from, to) == to;
  return ::fcntl(from, F_SETFD, 0) == 0;
}

/// Leaves `line` open in the worker, out of its way: select() knows numbers below 1,024, which is a
/// common soft limit as well. Where the hard limit allows no higher one it stays where it is.
bool keep_open(int line) {
  constexpr int kOutOfTheWay = 1'024;
  return ::fcntl(line, F_DUPFD, kOutOfTheWay) >= 0 || ::fcntl(line, F_SETFD, 0) == 0;
}

/// We may hold more files than the worker is to have; what is open stays open.
void restore_limit(std::uint64_t open_files_max) {
  rlimit limit{};
  if (open_files_max == 0 || ::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = std::min<rlim_t>(open_files_max, limit.rlim_max);
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

/// `cpus` as the kernel takes them; empty: none.
std::vector<unsigned long> mask_of(const std::set<int>& cpus) {
  constexpr std::size_t kBits = std::numeric_limits<unsigned long>::digits;
  std::vector<unsigned long> mask;
  for (const int cpu : cpus) {
    const auto bit = static_cast<std::size_t>(cpu);
    mask.resize(std::max(mask.size(), bit / kBits + 1));
    mask[bit / kBits] |= 1UL << (bit % kBits);
  }
  return mask;
}

/// By a plain system call, since cpu_set_t ends at 1,024 CPUs.
bool bind_to(const std::vector<unsigned long>& mask) {
  const std::size_t bytes = mask.size() * sizeof(unsigned long);
  return mask.empty() || ::syscall(SYS_sched_setaffinity, 0, bytes, mask.data()) == 0;
}

/// Between vfork and execve: the stack is the parent's, so only system calls.
SpawnStep become_worker(
    const SpawnRequest& request, const std::vector<unsigned long>& cpus, pid_t parent) {
  // A session and group of its own, as under torchrun: one signal reaches the worker and what it
  // forks, and a worker that reads the terminal is not stopped by SIGTTIN.
  if (::setsid() < 0) return SpawnStep::kSession;
  // If the agent ends in any way, the kernel kills the worker; the worker's own children are left
  // to the guard.
  if (::prctl(PR_SET_PDEATHSIG, SIGKILL) != 0) return SpawnStep::kParentDeath;
  // The agent may have ended just before the line above, which then came too late.
  if (::getppid() != parent) return SpawnStep::kParentGone;
  if (!put(request.out, STDOUT_FILENO) || !put(request.err, STDERR_FILENO)) {
    return SpawnStep::kStreams;
  }
  // vfork shares the memory, and not the descriptors and limits: nobody else's change.
  for (const int line : request.keep) {
    if (!keep_open(line)) return SpawnStep::kStreams;
  }
  if (!bind_to(cpus)) return SpawnStep::kAffinity;
  restore_limit(request.open_files_max);
  restore_signals(request.ignored, request.waits ? SIGUSR1 : 0);
  return SpawnStep::kExec;
}

Descriptor open_pidfd(pid_t pid) {
  const long descriptor = ::syscall(SYS_pidfd_open, pid, 0);  // close-on-exec by itself
  return Descriptor(static_cast<int>(descriptor));
}

/// False at the end of the pipe, which execve closes.
bool read_news(const Descriptor& pipe, ChildNews& news) {
  ssize_t got = 0;
  do {
    got = ::read(pipe.get(), &news, sizeof news);
  } while (got < 0 && errno == EINTR);
  return got == static_cast<ssize_t>(sizeof news);
}

Error spawn_error(const SpawnRequest& request, ChildNews news) {
  const int errno_value = news.errno_value;
  const char* reason = std::strerror(errno_value);
  if (news.failed_at != SpawnStep::kExec) {
    return make_process_error(errno_value, fmt::format("cannot start {}", request.program));
  }
  if (errno_value == ENOENT || errno_value == ENOTDIR) {
    return make_error(
        Errc::kNotFound,
        fmt::format(
            "cannot run {}: {} (the file itself, or the interpreter named in its first line)",
            request.program,
            reason));
  }
  if (errno_value == ENOMEM || errno_value == EAGAIN || errno_value == ENFILE) {
    return make_process_error(errno_value, fmt::format("cannot run {}", request.program));
  }
  return make_error(
      Errc::kNotExecutable, fmt::format("cannot run {}: {}", request.program, reason));
}

}  // namespace

Result<Process> spawn(const SpawnRequest& request) {
  const auto arguments = pointers(&request.program, request.arguments);
  const auto environment = pointers(nullptr, request.environment);
  const pid_t parent = ::getpid();
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) {
    return spawn_error(request, {.failed_at = SpawnStep::kNone, .errno_value = errno});
  }
  const Descriptor read_end(ends[0]);
  Descriptor write_end(ends[1]);

  const auto cpus = mask_of(request.cpus);
  const std::vector<int> to_close = request.waits ? closed_by_exec(ends[1]) : std::vector<int>();
  // No handler of ours may run in the child, which shares our memory.
  std::optional<SignalsBlocked> blocked(std::in_place);
  // posix_spawn can do neither the parent-death signal nor the check of the parent. With vfork we
  // would wait as long as a child that waits.
  const pid_t pid = request.waits ? ::fork() : ::vfork();  // NOLINT(bugprone-unsafe-functions)
  if (pid == 0) {
    const SpawnStep reached = become_worker(request, cpus, parent);
    if (reached == SpawnStep::kExec && request.waits) {
      wait_for_debugger(to_close, request, parent);
    }
    if (reached == SpawnStep::kExec) {
      ::execve(request.program.c_str(), arguments.data(), environment.data());
    }
    const ChildNews news{.failed_at = reached, .errno_value = errno};
    static_cast<void>(::write(ends[1], &news, sizeof news));  // nobody left to tell otherwise
    ::_exit(kExitNotFound);
  }
  const int fork_errno = errno;
  // Taken before anybody could reap the child, so it cannot be a stranger's.
  Process process{.pid = pid, .pidfd = pid > 0 ? open_pidfd(pid) : Descriptor()};
  blocked.reset();
  if (pid < 0)
    return spawn_error(request, {.failed_at = SpawnStep::kNone, .errno_value = fork_errno});

  write_end.reset();
  ChildNews news;
  if (read_news(read_end, news)) {
    ::waitpid(pid, nullptr, 0);
    return spawn_error(request, news);
  }
  return process;
}

ProcessEnd end_of(int wait_status) {
  if (WIFSIGNALED(wait_status)) return {.code = 0, .signal = WTERMSIG(wait_status)};
  return {.code = WEXITSTATUS(wait_status), .signal = 0};
}

bool has_handler(pid_t pid, int signal) {
  const auto status = read_file(fmt::format("/proc/{}/status", pid), kProcFileBytesMax);
  if (!status) return false;
  constexpr std::string_view kCaught = "SigCgt:";
  const std::size_t at = status->find(kCaught);
  if (at == std::string::npos) return false;
  const std::uint64_t mask = std::strtoull(status->c_str() + at + kCaught.size(), nullptr, 16);
  return ((mask >> static_cast<unsigned>(signal - 1)) & 1U) != 0;
}

bool is_ending(pid_t pid) {
  const auto stat = read_file(fmt::format("/proc/{}/stat", pid), kProcFileBytesMax);
  if (!stat) return false;
  // The name stands in parentheses and may hold any byte. Then: state, five numbers, flags.
  const auto fields = split(std::string_view(*stat).substr(stat->rfind(')') + 1), ' ');
  constexpr std::size_t kState = 1;
  constexpr std::size_t kFlags = 7;
  constexpr unsigned long kExiting = 0x4;  // PF_EXITING of linux/sched.h
  if (fields.size() <= kFlags) return false;
  const unsigned long flags = std::strtoul(std::string(fields[kFlags]).c_str(), nullptr, 10);
  return fields[kState] == "Z" || (flags & kExiting) != 0;
}

std::string command_of(pid_t pid) {
  constexpr std::size_t kShownMax = 80;
  auto arguments = read_file(fmt::format("/proc/{}/cmdline", pid), kProcFileBytesMax);
  if (!arguments || trim(*arguments).empty())
    arguments = read_file(fmt::format("/proc/{}/comm", pid), 64);
  if (!arguments) return "?";
  while (!arguments->empty() && (arguments->back() == '\0' || arguments->back() == '\n')) {
    arguments->pop_back();
  }
  std::ranges::replace_if(
      *arguments,
      [](char byte) { return static_cast<unsigned char>(byte) < ' ' || byte == 0x7F; },
      ' ');
  if (arguments->size() > kShownMax) arguments->replace(kShownMax - 3, std::string::npos, "...");
  return arguments->empty() ? "?" : *std::move(arguments);
}

std::string wait_channel(pid_t pid) {
  const auto channel = read_file(fmt::format("/proc/{}/wchan", pid), kProcFileBytesMax);
  return channel && !channel->empty() && *channel != "0" ? *channel : "?";
}

}  // namespace ddprun
