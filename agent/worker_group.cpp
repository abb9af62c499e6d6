#include "agent/worker_group.hpp"

#include "agent/descendants.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <span>
#include <utility>

#include <signal.h>
#include <sys/wait.h>

namespace ddprun {
namespace {

using PidFd = asio::posix::stream_descriptor;

/// Slurm signals every process of a step. A worker that gets a signal of the user's choice for a
/// notice must not die of another one.
std::vector<int> ignored_by_workers(const NoticePlan& notice) {
  std::vector<int> ignored;
  if (!notice.forward) return ignored;
  for (const int signal : {SIGUSR1, SIGUSR2}) {
    if (signal != *notice.forward) ignored.push_back(signal);
  }
  return ignored;
}

std::vector<std::string> command_of(const LaunchPlan& plan, const WorkerPlace& place) {
  const WorkerCommand& command = plan.command;
  std::vector<std::string> arguments;
  arguments.reserve(command.wrap.size() + 1 + command.arguments.size());
  for (const std::string& argument : command.wrap) {
    arguments.push_back(with_place(argument, place, plan.run_id));
  }
  arguments.push_back(with_local_rank(command.program, place.local_rank));
  for (const std::string& argument : command.arguments) {
    arguments.push_back(with_local_rank(argument, place.local_rank));
  }
  return arguments;
}

}  // namespace

WorkerGroup::WorkerGroup(
    asio::io_context& context,
    const LaunchPlan& plan,
    Inherited inherited,
    Streams& streams,
    TaskScope& tasks)
    : context_(context),
      plan_(plan),
      inherited_(std::move(inherited)),
      streams_(streams),
      tasks_(tasks),
      pids_(static_cast<std::size_t>(plan.workers)),
      error_files_(static_cast<std::size_t>(plan.workers)) {}

Result<pid_t> WorkerGroup::start(WorkerPlace place) {
  const auto index = static_cast<std::size_t>(place.local_rank);
  auto streams = streams_.attach(
      {.attempt = place.round.progress.attempt,
       .local_rank = place.local_rank,
       .rank = place.rank()});
  if (!streams) return streams.error();
  place.error_file = streams->error_file;
  error_files_[index] = streams->error_file;
  auto environment = worker_environment(plan_, place, inherited_.environment);
  if (!environment) return environment.error();

  SpawnRequest request;
  request.command = command_of(plan_, place);
  request.waits = plan_.debug_rank == place.rank();
  request.environment = *std::move(environment);
  request.out = streams->out.get();
  request.err = streams->err.get();
  request.keep = handed_down_;
  request.ignored = ignored_by_workers(plan_.notice);
  request.open_files_max = inherited_.open_files_max;
  if (!plan_.cpus.empty()) request.cpus = plan_.cpus[index];
  auto process = spawn(request);
  if (!process) return process.error();

  const pid_t pid = process->pid;
  pids_[index] = pid;
  // Without a pidfd (an old kernel, seccomp) SIGCHLD alone tells.
  if (process->pidfd) tasks_.spawn(watch(pid, PidFd(context_, process->pidfd.release())));
  return pid;
}

/// By its pidfd, so that of two deaths the earlier one is the first to be seen.
asio::awaitable<void> WorkerGroup::watch(pid_t pid, PidFd pidfd) {
  const auto [error] = co_await pidfd.async_wait(PidFd::wait_read, kTuple);
  if (!error && before_deaths_) before_deaths_();
  // reap() may have been here before; then the number is nobody's, or a stranger's.
  const bool is_ours = std::ranges::find(pids_, pid) != pids_.end();
  int wait_status = 0;
  if (!error && is_ours && ::waitpid(pid, &wait_status, WNOHANG) == pid) ended(pid, wait_status);
}

void WorkerGroup::reap() {
  for (;;) {
    int wait_status = 0;
    const pid_t pid = ::waitpid(-1, &wait_status, WNOHANG);
    if (pid < 0 && errno == EINTR) continue;
    if (pid < 0 && sweeping_) {
      sweeping_.reset();
      return callbacks_.alone();
    }
    if (pid <= 0) break;
    ended(pid, wait_status);
  }
  // What a killed parent leaves has become our child by now.
  if (sweeping_ == SIGKILL) signal_descendants(SIGKILL, Search::kQuick);
}

void WorkerGroup::ended(pid_t pid, int wait_status) {
  if (const auto other = others_.extract(pid)) return other.mapped()(end_of(wait_status));
  const auto found = std::ranges::find(pids_, pid);
  if (found == pids_.end()) return;  // an orphan that we adopted, and have now buried
  *found = 0;
  const bool leaves_group = ::kill(-pid, 0) == 0 || errno == EPERM;
  const auto local_rank = static_cast<int>(found - pids_.begin());
  callbacks_.ended(local_rank, pid, end_of(wait_status), leaves_group);
}

bool WorkerGroup::is_one_ending() const {
  return std::ranges::any_of(pids_, [](pid_t pid) { return pid > 0 && is_ending(pid); });
}

void WorkerGroup::send(int local_rank, int signal) {
  const pid_t pid = pid_of(local_rank);
  if (pid == 0) return;
  // It leads a session, so its group has its number, and keeps it until we reap it.
  if (::kill(-pid, signal) != 0) ::kill(pid, signal);
}

void WorkerGroup::pass_on(int signal) {
  for (const pid_t pid : pids_) {
    if (pid > 0 && has_handler(pid, signal)) ::kill(pid, signal);
  }
}

void WorkerGroup::sweep(int signal, std::vector<pid_t> signalled) {
  sweeping_ = signal;
  reap();
  if (!sweeping_ || signal == 0) return;  // nobody is left, or gets a signal
  const Search search = signal == SIGKILL ? Search::kThorough : Search::kQuick;
  signal_descendants(signal, search, {.families = {}, .groups = std::move(signalled)});
}

std::string WorkerGroup::leftovers() {
  constexpr std::size_t kShownMax = 4;
  const auto pids = descendants_of(::getpid(), Search::kThorough);
  std::string out;
  for (const pid_t pid : std::span(pids).first(std::min(kShownMax, pids.size()))) {
    out += fmt::format("{}pid {} ({})", out.empty() ? "" : ", ", pid, command_of(pid));
  }
  const auto hidden = pids.size() - std::min(kShownMax, pids.size());
  return hidden == 0 ? out : out + fmt::format(" and {} more", hidden);
}

}  // namespace ddprun
