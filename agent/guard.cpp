#include "agent/guard.hpp"

#include "agent/core/process_end.hpp"
#include "agent/descendants.hpp"
#include "base/error.hpp"
#include "base/exit_status.hpp"
#include "base/say.hpp"

#include <fmt/format.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <optional>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

namespace ddprun {
namespace {

using namespace std::chrono_literals;

constexpr auto kUnkillableAfter = 5s;
constexpr int kPriority = -5;

/// Where it is allowed, the front gets the processor before what it guards, and is never waited
/// for by the disk it was paged out to. Pages are locked as they are touched, so it stays small.
void be_ready() {
  ::setpriority(PRIO_PROCESS, 0, kPriority);
  ::mlockall(MCL_CURRENT | MCL_FUTURE | MCL_ONFAULT);
}

/// Reaps what has ended, orphans that were left to us included (as PID 1 of a container, those of
/// the whole container). Yields the agent's status once it is among them.
std::optional<int> reap(pid_t agent) {
  std::optional<int> ended;
  for (;;) {
    int status = 0;
    const pid_t pid = ::waitpid(-1, &status, WNOHANG);
    if (pid == agent) ended = status;
    if (pid == 0 || (pid < 0 && errno != EINTR)) return ended;
  }
}

int await_agent(pid_t agent, sigset_t signals) {
  ::sigaddset(&signals, SIGCHLD);
  for (;;) {
    const int signal = ::sigwaitinfo(&signals, nullptr);
    if (signal == SIGCHLD) {
      const auto ended = reap(agent);
      if (ended) return *ended;
    } else if (signal > 0) {
      ::kill(agent, signal);  // not reaped yet, so the number is still the agent's
    }
  }
}

bool is_a_defect(int signal) {
  return signal == SIGABRT || signal == SIGSEGV || signal == SIGBUS || signal == SIGFPE ||
         signal == SIGILL || signal == SIGSYS;
}

/// `earlier`: children of whoever became us by exec, `tensorboard & exec ddprun` for one. They are
/// not of the job.
int watch(pid_t agent, const sigset_t& signals, std::vector<pid_t> earlier) {
  be_ready();
  const int status = await_agent(agent, signals);
  const auto left = kill_descendants(
      Clock::now() + kUnkillableAfter, {.families = std::move(earlier), .groups = {}});
  for (const pid_t pid : left) {
    say(fmt::format("ddprun: process {} does not end, even by SIGKILL; it is left\n", pid));
  }
  if (WIFEXITED(status)) return WEXITSTATUS(status);

  const int signal = WTERMSIG(status);
  const int exit_status = is_a_defect(signal) ? kExitDefect : exit_status_of_signal(signal);
  say(fmt::format(
      "ddprun: the agent (pid {}) was ended by {}; every process of the job was killed; "
      "exit status {}\n",
      agent,
      signal_name(signal),
      exit_status));
  return exit_status;
}

}  // namespace

std::variant<AgentBegins, FrontEnded> fork_agent(const sigset_t& signals) {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) {
    say(fmt::format("ddprun: {}\n", make_errno_error(errno, "cannot make a pipe").detail));
    return FrontEnded{.exit_status = kExitTryAgain};
  }
  Descriptor lifeline(ends[0]);
  const Descriptor kept_by_the_front(ends[1]);

  auto earlier = descendants_of(::getpid(), Search::kQuick);
  become_subreaper();    // before there is anybody to be orphaned
  std::fflush(nullptr);  // or both processes would write what is buffered
  const pid_t agent = ::fork();
  if (agent < 0) {
    const Error error = make_process_error(errno, "cannot start the agent's process");
    say(fmt::format("ddprun: {}\n", error.detail));
    return FrontEnded{.exit_status = kExitTryAgain};
  }
  if (agent > 0) return FrontEnded{.exit_status = watch(agent, signals, std::move(earlier))};

  become_subreaper();  // fork does not hand this down
  // One that is stopped when the front is killed wakes, finds the lifeline closed, and clears up.
  ::prctl(PR_SET_PDEATHSIG, SIGCONT);
  ::prctl(PR_SET_NAME, "ddprun-agent");
  return AgentBegins{.lifeline = std::move(lifeline)};
}

}  // namespace ddprun
