#include "agent/process.hpp"

#include "base/exit_status.hpp"
#include "base/file.hpp"
#include "base/parse.hpp"
#include "base/quiet_thread.hpp"

#define BOOST_PROCESS_USE_STD_FS
#include <boost/asio/execution/context.hpp>
#include <boost/asio/execution_context.hpp>
#include <boost/optional/optional.hpp>  // which the next header leaves out
#include <boost/process/v2/posix/vfork_launcher.hpp>
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
#include <string_view>
#include <system_error>

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

namespace ddprun {
namespace {

namespace asio = boost::asio;
namespace fs = std::filesystem;
namespace process = boost::process::v2;

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

/// What a child that could not become the program reports before it ends. It comes through a pipe
/// and not through the memory that vfork shares: emulators and TSan turn vfork into fork.
struct ChildFailure {
  SpawnStep step = SpawnStep::kNone;
  int errno_value = 0;
};

/// An executor without services. Boost's launchers notify the services of the executor's context
/// of the fork. After vfork, Asio's reactor would replace its descriptors in our memory by those
/// that it opened in the child.
struct NoServices {
  asio::execution_context* context;

  asio::execution_context& query(asio::execution::context_t) const noexcept { return *context; }
  template <class Function>
  void execute(Function function) const {
    function();
  }
  bool operator==(const NoServices&) const noexcept = default;
};

}  // namespace
}  // namespace ddprun

/// What a launcher returns for our executor. Boost 1.81's own needs a reactor, kills the child in
/// its destructor, and throws on a kernel without pidfd, or installs a handler for SIGCHLD.
template <>
struct boost::process::v2::basic_process<ddprun::NoServices> : ddprun::Process {
  explicit basic_process(ddprun::NoServices) {}
  basic_process(ddprun::NoServices, pid_t child) : Process(ddprun::process_of(child)) {}
};

namespace ddprun {
namespace {

std::vector<const char*> pointers(const std::vector<std::string>& strings) {
  std::vector<const char*> out;
  out.reserve(strings.size() + 1);
  for (const std::string& text : strings) {
    out.push_back(text.c_str());
  }
  out.push_back(nullptr);
  return out;
}

/// exec resets handlers, but an ignored signal (SIGPIPE, by us) would stay ignored in the program.
void restore_signals(const std::vector<int>& ignored) {
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
}

void block_only(int signal) {
  sigset_t mask;
  ::sigemptyset(&mask);
  if (signal != 0) ::sigaddset(&mask, signal);
  ::sigprocmask(SIG_SETMASK, &mask, nullptr);
}

/// The descriptors that exec would close, `last` at the end. Read in the parent: the child of a
/// process with threads may do little more than system calls.
std::vector<int> closed_by_exec(int last) {
  std::vector<int> found;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator("/proc/self/fd", error)) {
    const int number = parse_int<int>(entry.path().filename().native()).value_or(last);
    const int flags = ::fcntl(number, F_GETFD);
    if (flags >= 0 && (flags & FD_CLOEXEC) != 0 && number != last) found.push_back(number);
  }
  found.push_back(last);
  return found;
}

/// dup2 onto itself would leave close-on-exec set.
bool put(int from, int to) {
  if (from < 0) return true;
  if (from != to) return ::dup2(from, to) == to;
  return ::fcntl(from, F_SETFD, 0) == 0;
}

/// Leaves `line` open in the worker under a high number: select() only handles numbers below 1,024,
/// which is a common soft limit as well. It keeps its number if the hard limit is lower.
bool keep_open(int line) {
  constexpr int kOutOfTheWay = 1'024;
  return ::fcntl(line, F_DUPFD, kOutOfTheWay) >= 0 || ::fcntl(line, F_SETFD, 0) == 0;
}

/// We may have raised our limit; the worker gets `open_files_max`. Open descriptors stay open.
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

/// Boost's initializer: turns the child into the program.
class BecomeProgram {
 public:
  /// `report` is the write end of the pipe on which the child reports a failure.
  BecomeProgram(const SpawnRequest& request, int report)
      : request_(request), report_(report), cpus_(mask_of(request.cpus)) {}

  /// In the parent, after the launcher has opened its own descriptors.
  template <class Launcher>
  process::error_code on_setup(Launcher&, const fs::path&, const char* const*) {
    if (request_.waits) to_close_ = closed_by_exec(report_);
    return {};
  }

  /// In the child, whose memory is the parent's after vfork: only system calls, and no writes but
  /// to the stack. It calls exec itself, because the launcher would first close the descriptors
  /// that the user hands down (`<(...)`), and after a failed exec run our exit handlers.
  template <class Launcher>
  [[noreturn]] process::error_code on_exec_setup(
      Launcher& launcher, const fs::path& program, const char* const* arguments) const {
    const SpawnStep reached = prepare();
    if (reached == SpawnStep::kExec) {
      if (request_.waits) wait_for_debugger();
      // execve takes char* const* for the sake of old C and changes nothing.
      ::execve(
          program.c_str(),
          const_cast<char* const*>(arguments),
          const_cast<char* const*>(launcher.env));
    }
    const ChildFailure failure{.step = reached, .errno_value = errno};
    [[maybe_unused]] const ssize_t told =
        ::write(report_, &failure, sizeof failure);  // else nobody is left to tell
    ::_exit(kExitNotFound);
  }

 private:
  /// Yields the step that failed, or kExec.
  SpawnStep prepare() const {
    if (!request_.foreground) {
      // A session and group of its own, as under torchrun: one signal reaches the worker and what
      // it forks, and a worker that reads the terminal is not stopped by SIGTTIN.
      if (::setsid() < 0) return SpawnStep::kSession;
      // If the agent ends in any way, the kernel kills the worker; the guard kills the worker's own
      // children.
      if (::prctl(PR_SET_PDEATHSIG, SIGKILL) != 0) return SpawnStep::kParentDeath;
      // The agent may have ended before that call, which then came too late.
      if (::getppid() != parent_) return SpawnStep::kParentGone;
      restore_signals(request_.ignored);
    }
    if (!put(request_.in, STDIN_FILENO) || !put(request_.out, STDOUT_FILENO) ||
        !put(request_.err, STDERR_FILENO)) {
      return SpawnStep::kStreams;
    }
    // vfork shares the memory, but not the descriptors and limits.
    for (const int line : request_.keep) {
      if (!keep_open(line)) return SpawnStep::kStreams;
    }
    if (!bind_to(cpus_)) return SpawnStep::kAffinity;
    restore_limit(request_.open_files_max);
    block_only(request_.waits ? SIGUSR1 : 0);
    return SpawnStep::kExec;
  }

  /// After fork. Closes our sockets before it waits: held open here, their ends would never be
  /// seen. The last descriptor it closes tells the parent that this is done.
  void wait_for_debugger() const {
    ::prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);  // if Yama allows only parents
    for (const int descriptor : to_close_) {
      if (std::ranges::find(request_.keep, descriptor) == request_.keep.end()) ::close(descriptor);
    }
    sigset_t awaited;
    ::sigemptyset(&awaited);
    ::sigaddset(&awaited, SIGUSR1);
    siginfo_t info{};
    while (::sigwaitinfo(&awaited, &info) < 0 && errno == EINTR) {}
    if (info.si_pid == parent_) {
      ::signal(SIGUSR1, SIG_DFL);
      ::raise(SIGUSR1);  // comes when it is unblocked
    }
    ::sigprocmask(SIG_UNBLOCK, &awaited, nullptr);
  }

  const SpawnRequest& request_;
  int report_;
  pid_t parent_ = ::getpid();
  std::vector<unsigned long> cpus_;
  std::vector<int> to_close_;  // before the wait for a debugger
};

/// False at the end of the pipe, which exec closes.
bool read_failure(const Descriptor& pipe, ChildFailure& failure) {
  ssize_t got = 0;
  do {
    got = ::read(pipe.get(), &failure, sizeof failure);
  } while (got < 0 && errno == EINTR);
  return got == static_cast<ssize_t>(sizeof failure);
}

Error spawn_error(const std::string& program, ChildFailure failure) {
  const int errno_value = failure.errno_value;
  const char* reason = std::strerror(errno_value);
  if (failure.step != SpawnStep::kExec) {
    return make_process_error(errno_value, fmt::format("cannot start {}", program));
  }
  if (errno_value == ENOENT || errno_value == ENOTDIR) {
    return make_error(
        Errc::kNotFound,
        fmt::format(
            "cannot run {}: {} (the file itself, or the interpreter named in its first line)",
            program,
            reason));
  }
  // The last ones: a file that is being written, or was replaced, or whose disk or server fails.
  constexpr std::array kMayPass = {
      ENOMEM, EAGAIN, ENFILE, EMFILE, ETXTBSY, ESTALE, EIO, ETIMEDOUT, ENODEV};
  if (std::ranges::find(kMayPass, errno_value) != kMayPass.end()) {
    return make_process_error(errno_value, fmt::format("cannot run {}", program));
  }
  return make_error(Errc::kNotExecutable, fmt::format("cannot run {}: {}", program, reason));
}

}  // namespace

Result<Process> spawn(const SpawnRequest& request) {
  const std::string& program = request.command.front();
  auto pipe = make_pipe();
  if (!pipe) return with_context(fmt::format("cannot start {}", program), pipe.error());
  auto arguments = pointers(request.command);
  const auto environment = pointers(request.environment);
  asio::execution_context context;
  BecomeProgram become_program(request, pipe->write_end.get());
  process::error_code error;
  const auto start = [&](auto launcher) -> Process {
    launcher.env = environment.data();
    // No handler of ours may run in the child, which shares our memory.
    const SignalsBlocked blocked;
    const NoServices executor{&context};
    return launcher(executor, error, program, arguments.data(), become_program);
  };
  // With vfork we would wait as long as a child that waits for a debugger.
  Process child = request.waits ? start(process::posix::default_launcher())
                                : start(process::posix::vfork_launcher());
  if (error) return spawn_error(program, {.errno_value = error.value()});

  pipe->write_end.reset();
  ChildFailure failure;
  if (read_failure(pipe->read_end, failure)) {
    ::waitpid(child.pid, nullptr, 0);
    return spawn_error(program, failure);
  }
  return child;
}

Process process_of(pid_t child) {
  // The pidfd cannot be another process's before the child is reaped.
  const long descriptor = ::syscall(SYS_pidfd_open, child, 0);  // close-on-exec by itself
  return {.pid = child, .pidfd = Descriptor(static_cast<int>(descriptor))};
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

}  // namespace ddprun
