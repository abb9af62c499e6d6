#include "launcher/run/independent.hpp"

#include "agent/descendants.hpp"
#include "agent/process.hpp"
#include "base/error.hpp"
#include "base/exit_status.hpp"
#include "base/log.hpp"
#include "launcher/run/run.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <string>

#include <signal.h>
#include <sys/prctl.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

namespace ddprun {
namespace {

struct Job {
  std::int64_t task = 0;
  pid_t pid = 0;  // 0: it has ended
};

class Jobs {
 public:
  void add(Job job) { jobs_.push_back(job); }

  void signal(int number) const {
    for (const Job& job : jobs_) {
      if (job.pid > 0) ::kill(job.pid, number);
    }
  }

  /// Reaps children that have ended; false once none is left, also none that a killed guard left.
  bool reap() {
    for (;;) {
      int status = 0;
      const pid_t pid = ::waitpid(-1, &status, WNOHANG);
      if (pid < 0 && errno == EINTR) continue;
      if (pid <= 0) return pid == 0;
      const auto job = std::ranges::find(jobs_, pid, &Job::pid);
      if (job == jobs_.end()) continue;
      job->pid = 0;
      note(job->task, end_of(status));
    }
  }

  int exit_status() const { return exit_status_; }

  /// Empty: all have ended with 0.
  std::string summary() const {
    if (shown_.empty()) return {};
    return fmt::format(
        "ddprun: of {} jobs side by side {}; exit status {}\n", jobs_.size(), shown_, exit_status_);
  }

 private:
  void note(std::int64_t task, ProcessEnd end) {
    if (end.ok()) return;
    if (exit_status_ == kExitOk) exit_status_ = end.exit_status();
    shown_ += fmt::format("{}task {} {}", shown_.empty() ? "" : ", ", task, end.to_string());
  }

  std::vector<Job> jobs_;
  int exit_status_ = kExitOk;  // of the first that failed
  std::string shown_;
};

void wait_for_all(Jobs& jobs, sigset_t signals) {
  ::sigaddset(&signals, SIGCHLD);
  while (jobs.reap()) {
    siginfo_t info{};
    const int number = ::sigwaitinfo(&signals, &info);
    if (number > 0 && number != SIGCHLD) jobs.signal(number);
  }
}

}  // namespace

int run_side_by_side(const std::vector<LaunchPlan>& plans) {
  const sigset_t signals = block_signals_of(plans.front());
  // A process that outlives its job is not waited for.
  const bool keeps = plans.front().leftovers.mode == LeftoverMode::kKeep;
  if (!keeps) become_subreaper();
  const pid_t parent = ::getpid();
  Jobs jobs;
  for (const LaunchPlan& plan : plans) {
    const pid_t pid = ::fork();
    if (pid == 0) {
      // Its agent then ends all that is below it.
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      return ::getppid() == parent ? run(plan, {}) : kExitTryAgain;
    }
    if (pid < 0) {
      report(
          "{}; the jobs that run are ended",
          make_process_error(errno, "cannot start a job").detail);
      jobs.signal(SIGTERM);
      wait_for_all(jobs, signals);
      return kExitTryAgain;
    }
    jobs.add({.task = plan.task ? plan.task->id : 0, .pid = pid});
  }
  wait_for_all(jobs, signals);
  report_lines(jobs.summary());
  return jobs.exit_status();
}

}  // namespace ddprun
