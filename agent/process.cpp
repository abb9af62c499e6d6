#include "agent/process.hpp"

#include <fmt/format.h>

#include <array>
#include <cerrno>
#include <cstring>

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

namespace ddprun {
namespace {

enum class SpawnStep { kNone, kSession, kParentDeath, kParentGone, kStreams, kExec };

/// Written by the child, which shares our memory until it runs the program.
struct ChildNews {
  volatile SpawnStep failed_at = SpawnStep::kNone;
  volatile int errno_value = 0;
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

/// Handlers go with execve, but what we ignore (SIGPIPE) would stay ignored in the worker.
void restore_signals() {
  struct sigaction action {};
  action.sa_handler = SIG_DFL;
  for (int signal = 1; signal < NSIG; ++signal) {
    ::sigaction(signal, &action, nullptr);  // refused for SIGKILL, SIGSTOP and libc's own
  }
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
}

/// dup2 onto itself would leave close-on-exec set.
bool put(int from, int to) {
  if (from < 0) return true;
  if (from != to) return ::dup2(from, to) == to;
  return ::fcntl(from, F_SETFD, 0) == 0;
}

/// Between vfork and execve: the stack is the parent's, so only system calls.
SpawnStep become_worker(const SpawnRequest& request, pid_t parent) {
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
  restore_signals();
  return SpawnStep::kExec;
}

Descriptor open_pidfd(pid_t pid) {
  const long descriptor = ::syscall(SYS_pidfd_open, pid, 0);  // close-on-exec by itself
  return Descriptor(static_cast<int>(descriptor));
}

Error spawn_error(const SpawnRequest& request, SpawnStep step, int errno_value) {
  const char* reason = std::strerror(errno_value);
  if (step != SpawnStep::kExec) {
    return make_error(
        Errc::kIo, fmt::format("cannot start {}: {}", request.program, reason));
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
    return make_error(Errc::kIo, fmt::format("cannot run {}: {}", request.program, reason));
  }
  return make_error(
      Errc::kNotExecutable, fmt::format("cannot run {}: {}", request.program, reason));
}

}  // namespace

Result<Process> spawn(const SpawnRequest& request) {
  const auto arguments = pointers(&request.program, request.arguments);
  const auto environment = pointers(nullptr, request.environment);
  const pid_t parent = ::getpid();
  ChildNews news;

  // No handler of ours may run in the child, which shares our memory.
  sigset_t all;
  sigset_t before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  const pid_t pid = ::vfork();
  if (pid == 0) {
    news.failed_at = become_worker(request, parent);
    if (news.failed_at == SpawnStep::kExec) {
      ::execve(request.program.c_str(), arguments.data(), environment.data());
    }
    news.errno_value = errno;
    ::_exit(127);
  }
  const int fork_errno = errno;
  // Taken before anybody could reap the child, so it cannot be a stranger's.
  Process process{.pid = pid, .pidfd = pid > 0 ? open_pidfd(pid) : Descriptor()};
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);

  if (pid < 0) return spawn_error(request, SpawnStep::kNone, fork_errno);
  if (news.errno_value != 0) {
    ::waitpid(pid, nullptr, 0);
    return spawn_error(request, news.failed_at, news.errno_value);
  }
  return process;
}

}  // namespace ddprun
