#include "agent/worker_group.hpp"

#include "agent/proc.hpp"
#include "rendezvous/stream_of.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <utility>

#include <fcntl.h>
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

/// One that has no handler would be ended by the signal.
void send_if_handled(pid_t pid, int signal) {
  if (has_handler(pid, signal)) ::kill(pid, signal);
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
    asio::io_context& context, const Dependencies& dependencies, Inherited inherited)
    : context_(context),
      dependencies_(dependencies),
      inherited_(std::move(inherited)),
      pids_(static_cast<std::size_t>(dependencies_.plan.workers)) {}

void WorkerGroup::preload() {
  if (dependencies_.plan.preload.empty()) return;
  auto opened = ForkServer::open(
      context_,
      dependencies_.plan,
      {.ready = [this] { begin_held(); },
       .lost = [this](const std::string& why) { fork_server_lost(why); }});
  if (!opened) return callbacks_.fork_server_lost(opened.error().detail);
  fork_server_ = *std::move(opened);
  StartOrder order = fork_server_->order(
      fork_server_environment(dependencies_.plan, inherited_.environment),
      inherited_.open_files_max);
  start_too(
      std::move(order),
      [this](const Result<pid_t>& pid) { fork_server_->started(pid); },
      [this](ProcessEnd end) { fork_server_->ended(end); });
  dependencies_.tasks.spawn(fork_server_->await_imports());
  dependencies_.tasks.spawn(fork_server_->keep_time());
}

void WorkerGroup::begin_held() {
  for (WorkerPlace& place : std::exchange(round_.held, {})) {
    begin(std::move(place));
  }
}

void WorkerGroup::fork_server_lost(const std::string& why) {
  callbacks_.fork_server_lost(why);
  begin_held();
}

void WorkerGroup::begin_round(std::vector<int> lines) {
  ++round_.starts;
  round_.orders.assign(pids_.size(), 0);
  round_.lines = std::move(lines);
  round_.signals.clear();
  oom_kills_.forget();
}

void WorkerGroup::start(WorkerPlace place) {
  if (is_importing()) return round_.held.push_back(std::move(place));
  begin(std::move(place));
}

void WorkerGroup::begin(WorkerPlace place) {
  const WorkerId worker{
      .attempt = place.round.progress.attempt,
      .local_rank = place.local_rank,
      .rank = place.rank()};
  round_.orders[static_cast<std::size_t>(worker.local_rank)] = dependencies_.starter.begin(
      round_.starts, order_for(std::move(place), worker), [this, worker](Result<Process> process) {
        started(worker, std::move(process));
      });
}

Result<StartOrder> WorkerGroup::order_for(WorkerPlace place, const WorkerId& worker) const {
  place.error_file = dependencies_.streams.error_file_of(worker);
  auto environment = worker_environment(dependencies_.plan, place, inherited_.environment);
  if (!environment) return environment.error();
  auto streams = dependencies_.streams.order(worker);
  if (!streams) return streams.error();

  StartOrder order;
  order.streams = *std::move(streams);
  SpawnRequest& request = order.request;
  request.command = command_of(dependencies_.plan, place);
  request.waits = dependencies_.plan.debug_rank == place.rank();
  request.environment = *std::move(environment);
  request.ignored = ignored_by_workers(dependencies_.plan.notice);
  request.open_files_max = inherited_.open_files_max;
  if (fork_server_ && !request.waits) order.forks = fork_server_->channel();
  if (!dependencies_.plan.cpus.empty()) {
    request.cpus = dependencies_.plan.cpus[static_cast<std::size_t>(place.local_rank)];
  }
  // Duplicates, since the round may be over, and they closed, before the process is made.
  for (const int line : round_.lines) {
    Descriptor copy(::fcntl(line, F_DUPFD_CLOEXEC, 0));
    if (!copy) return make_process_error(errno, "cannot hand a lifeline down");
    request.keep.push_back(copy.get());
    order.kept.push_back(std::move(copy));
  }
  return order;
}

void WorkerGroup::started(const WorkerId& worker, Result<Process> process) {
  if (!process) {
    dependencies_.streams.forget(worker);
    callbacks_.started(worker.local_rank, process.error());
  } else {
    if (fork_server_) fork_server_->heed_lost_channel();
    pids_[static_cast<std::size_t>(worker.local_rank)] = process->pid;
    // Without a pidfd (an old kernel, seccomp) SIGCHLD alone tells.
    if (process->pidfd) {
      dependencies_.tasks.spawn(
          watch(process->pid, stream_of(context_, std::move(process->pidfd))));
    }
    // It may have run for a while, and told others that it is there.
    for (const int signal : round_.signals) {
      send_if_handled(process->pid, signal);
    }
    callbacks_.started(worker.local_rank, process->pid);
  }
  reap();  // what had to wait
}

bool WorkerGroup::cancel_start(int local_rank) {
  if (std::erase_if(round_.held, [local_rank](const WorkerPlace& place) {
        return place.local_rank == local_rank;
      }) != 0) {
    return true;
  }
  return dependencies_.starter.cancel(round_.orders[static_cast<std::size_t>(local_rank)]);
}

std::int64_t WorkerGroup::start_too(
    StartOrder order,
    std::function<void(Result<pid_t>)> started,
    std::function<void(ProcessEnd)> ended) {
  return dependencies_.starter.begin(
      WorkerStarter::kNoSeries,
      std::move(order),
      [this, started = std::move(started), ended = std::move(ended)](Result<Process> process) {
        if (!process) return started(process.error());
        others_.insert_or_assign(process->pid, ended);
        started(process->pid);
        reap();  // what had to wait
      });
}

/// By its pidfd, so that of two deaths the earlier one is the first to be seen.
asio::awaitable<void> WorkerGroup::watch(pid_t pid, PidFd pidfd) {
  const auto [error] = co_await pidfd.async_wait(PidFd::wait_read, kTuple);
  if (!error && callbacks_.before_deaths) callbacks_.before_deaths();
  // reap() may have been here before; then the number is nobody's, or a stranger's.
  const bool is_ours = std::ranges::find(pids_, pid) != pids_.end();
  int wait_status = 0;
  if (!error && is_ours && ::waitpid(pid, &wait_status, WNOHANG) == pid) ended(pid, wait_status);
}

void WorkerGroup::reap() {
  for (;;) {
    // The next that is reaped may be a process that we have not been told of yet, whose number must
    // stay its own until then. Asked each time: an end may have begun the next round.
    if (dependencies_.starter.is_busy()) return reap_known();
    int wait_status = 0;
    const pid_t pid = ::waitpid(-1, &wait_status, WNOHANG);
    if (pid < 0 && errno == EINTR) continue;
    if (pid > 0) {
      ended(pid, wait_status);
      continue;
    }
    if (sweeping_ && (pid < 0 || is_alone())) {
      sweeping_.reset();
      return callbacks_.alone();
    }
    break;
  }
  // What a killed parent leaves has become our child by now.
  if (sweeping_ == SIGKILL) {
    signal_descendants(SIGKILL, Search::kQuick, spared());
  }
}

/// Whether the fork server is all that is left below this process.
bool WorkerGroup::is_alone() const {
  if (spared().families.empty()) return false;
  const auto is_one_left = [this] {
    return DescendantWalk(::getpid(), Search::kQuick, spared()).next().has_value();
  };
  // Once more: one that ended while the kernel listed the children may have hidden its own.
  siginfo_t ended{};
  return !is_one_left() && ::waitid(P_ALL, 0, &ended, WEXITED | WNOHANG | WNOWAIT) == 0 &&
         ended.si_pid == 0 && !is_one_left();
}

/// The fork server's family, and `groups`.
Spared WorkerGroup::spared(std::span<const pid_t> groups) const {
  return {
      .families = fork_server_ ? fork_server_->family() : std::span<const pid_t>(),
      .groups = groups};
}

void WorkerGroup::reap_known() {
  std::vector<pid_t> known = pids_;
  for (const auto& [pid, on_end] : others_) {
    known.push_back(pid);
  }
  for (const pid_t pid : known) {
    int wait_status = 0;
    if (pid > 0 && ::waitpid(pid, &wait_status, WNOHANG) == pid) ended(pid, wait_status);
  }
}

void WorkerGroup::ended(pid_t pid, int wait_status) {
  if (const auto other = others_.extract(pid)) return other.mapped()(end_of(wait_status));
  const auto found = std::ranges::find(pids_, pid);
  if (found == pids_.end()) return;  // an orphan that we adopted, and have now buried
  *found = 0;
  const bool leaves_group = ::kill(-pid, 0) == 0 || errno == EPERM;
  const auto local_rank = static_cast<int>(found - pids_.begin());
  ProcessEnd end = end_of(wait_status);
  end.out_of_memory = end.signal == SIGKILL && oom_kills_.take_one();
  callbacks_.ended(local_rank, pid, end, leaves_group);
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
    if (pid > 0) send_if_handled(pid, signal);
  }
  if (dependencies_.starter.is_busy()) round_.signals.insert(signal);
}

void WorkerGroup::sweep(int signal, const std::vector<pid_t>& signalled) {
  sweeping_ = signal;
  reap();
  if (!sweeping_ || signal == 0) return;  // nobody is left, or gets a signal
  const Search search = signal == SIGKILL ? Search::kThorough : Search::kQuick;
  signal_descendants(signal, search, spared(signalled));
}

std::string WorkerGroup::leftovers() const {
  constexpr int kShownMax = 4;
  std::string out;
  int found = 0;
  DescendantWalk walk(::getpid(), Search::kThorough, spared());
  while (const auto pid = walk.next()) {
    if (++found > kShownMax) continue;
    out += fmt::format("{}pid {} ({})", out.empty() ? "" : ", ", *pid, command_of(*pid));
  }
  return found <= kShownMax ? out : out + fmt::format(" and {} more", found - kShownMax);
}

}  // namespace ddprun
