#include "launcher/run/run.hpp"

#include "agent/agent_main.hpp"
#include "agent/guard.hpp"
#include "base/error.hpp"
#include "base/log.hpp"
#include "launcher/run/after_job.hpp"

#include <cerrno>
#include <utility>
#include <variant>

#include <fcntl.h>
#include <sys/prctl.h>
#include <unistd.h>

namespace ddprun {
namespace {

bool is_ignored(int signal) {
  struct sigaction action {};
  return ::sigaction(signal, nullptr, &action) == 0 && action.sa_handler == SIG_IGN;
}

/// Else the next thing opened, our socket to the guard for one, would pass for the stream that is
/// missing.
void open_missing_streams() {
  for (int stream = STDIN_FILENO; stream <= STDERR_FILENO; ++stream) {
    if (::fcntl(stream, F_GETFD) < 0) ::open("/dev/null", O_RDWR);  // the lowest free one: `stream`
  }
}

}  // namespace

sigset_t block_signals_of(const LaunchPlan& plan) {
  sigset_t signals;
  ::sigemptyset(&signals);
  for (const int signal : plan.signals_to_handle) {
    // nohup(1): the end of the terminal does not end the job.
    if (signal == SIGHUP && is_ignored(SIGHUP)) continue;
    ::sigaddset(&signals, signal);
  }
  // Notices under Slurm, and else for workers alone.
  ::sigaddset(&signals, SIGUSR1);
  ::sigaddset(&signals, SIGUSR2);
  sigset_t blocked = signals;
  ::sigaddset(&blocked, SIGCHLD);
  ::sigprocmask(SIG_BLOCK, &blocked, nullptr);
  // Ignored, as some parents leave it, it would have the kernel reap our children for us.
  ::signal(SIGCHLD, SIG_DFL);
  return signals;
}

void warn_of_lost_orphans() {
  // Whether to adopt is decided later, so the attribute keeps its value.
  int adopts = 0;
  ::prctl(PR_GET_CHILD_SUBREAPER, &adopts);
  if (::prctl(PR_SET_CHILD_SUBREAPER, adopts) == 0) return;
  report(
      "warning: {}; a process that outlives its worker (a daemon, a child of a killed worker) may "
      "outlive the job; allow prctl(PR_SET_CHILD_SUBREAPER) in the container's seccomp profile, or "
      "start ddprun where all processes are killed with it (srun, systemd-run --wait --pipe)",
      make_errno_error(errno, "cannot adopt orphaned processes").detail);
}

int run(const LaunchPlan& plan, const RequeuePlan& again) {
  open_missing_streams();
  // A reader of our output that has gone is no reason to end the job, nor the guard.
  ::signal(SIGPIPE, SIG_IGN);
  // Under a limit on the size of files (ulimit -f) a write of ours fails; the job continues.
  ::signal(SIGXFSZ, SIG_IGN);
  const sigset_t signals = block_signals_of(plan);
  auto process = fork_agent(signals);
  if (const auto* guard = std::get_if<GuardEnded>(&process)) return guard->exit_status;
  return agent_main(
      plan, signals, std::get<AgentBegins>(std::move(process)), [&](const FinishedJob& end) {
        return after_job(plan, again, end, signals);
      });
}

}  // namespace ddprun
