#include "agent/agent.hpp"

#include "agent/descendants.hpp"
#include "agent/error_file.hpp"
#include "agent/report.hpp"
#include "base/exit_status.hpp"
#include "base/log.hpp"
#include "base/worker_contract.hpp"

#include <boost/asio/posix/stream_descriptor.hpp>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstdlib>
#include <utility>

#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

namespace ddprun {
namespace {

using namespace std::chrono_literals;

constexpr auto kUnkillableAfter = 5s;
constexpr int kLastLines = 20;
constexpr auto kStreamsPatience = 2s;  // for a slow disk or console, once no worker is left

SupervisorPolicy policy_of(const LaunchPlan& plan) {
  SupervisorPolicy policy;
  policy.workers = plan.workers;
  policy.max_restarts = plan.max_restarts;
  policy.restart_window = plan.restart_window;
  policy.grace = plan.shutdown_timeout;
  policy.unkillable_after = kUnkillableAfter;
  return policy;
}

std::string host_name() {
  std::array<char, 256> name{};
  if (::gethostname(name.data(), name.size() - 1) != 0) return "localhost";
  return name.data();
}

/// A port that was free a moment ago, for a store that rank 0 hosts. Somebody else may take it
/// first: that is why the shared store is the default.
Result<std::uint16_t> free_port() {
  const Descriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  socklen_t size = sizeof address;
  auto* const generic = reinterpret_cast<sockaddr*>(&address);
  if (!socket || ::bind(socket.get(), generic, size) != 0 ||
      ::getsockname(socket.get(), generic, &size) != 0) {
    return make_errno_error(errno, "no free port for rank 0's store");
  }
  return ntohs(address.sin_port);
}

ProcessEnd end_of(int wait_status) {
  if (WIFSIGNALED(wait_status)) return {.code = 0, .signal = WTERMSIG(wait_status)};
  return {.code = WEXITSTATUS(wait_status), .signal = 0};
}

/// Why a worker could not be started, as the core takes it.
Supervisor::SpawnFailed spawn_failed(int local_rank, const Error& error) {
  int status = kExitTryAgain;
  if (error.is(Errc::kNotFound)) status = kExitNotFound;
  if (error.is(Errc::kNotExecutable)) status = kExitNotExecutable;
  if (error.is(Errc::kInvalidArgument)) status = kExitUsage;
  return {
      .local_rank = local_rank,
      .exit_status = status,
      .can_be_retried = status == kExitTryAgain,
      .why = error.detail};
}

}  // namespace

Result<std::unique_ptr<Agent>> Agent::open(
    asio::io_context& context, const LaunchPlan& plan, std::vector<std::string> inherited) {
  auto streams = Streams::open(plan);
  if (!streams) return streams.error();
  std::unique_ptr<StoreServer> store;
  if (plan.shared_store) {
    StoreServerOptions options;
    options.endpoint.port = plan.master_port.value_or(0);
    auto listening = StoreServer::listen(context, options);
    if (!listening) return with_context("the store for the workers", listening.error());
    store = *std::move(listening);
  }
  return std::unique_ptr<Agent>(
      new Agent(context, plan, std::move(inherited), *std::move(streams), std::move(store)));
}

Agent::Agent(
    asio::io_context& context,
    LaunchPlan plan,
    std::vector<std::string> inherited,
    std::unique_ptr<Streams> streams,
    std::unique_ptr<StoreServer> store)
    : plan_(std::move(plan)),
      inherited_(std::move(inherited)),
      host_(host_name()),
      context_(context),
      streams_(std::move(streams)),
      store_(std::move(store)),
      journal_(
          streams_->directory().empty() ? std::filesystem::path()
                                        : streams_->directory() / kJournalName),
      supervisor_(policy_of(plan_)),
      pids_(static_cast<std::size_t>(plan_.workers)),
      error_files_(static_cast<std::size_t>(plan_.workers)),
      timer_(context, kNever),
      finished_(context, kNever),
      tasks_(context.get_executor()) {}

Agent::~Agent() = default;

asio::awaitable<int> Agent::run() {
  if (store_) tasks_.spawn(store_->serve());
  tasks_.spawn(keep_time());
  journal_.record({.event = "job_started", .text = plan_.command.title});
  feed(Supervisor::Begin{});
  while (!exit_status_) {
    co_await finished_.async_wait(kTuple);
  }
  tasks_.cancel();
  co_await tasks_.join();

  const int status = *exit_status_;
  if (stopped_by_ != 0) {
    journal_.tell([signal = stopped_by_, status] {
      return fmt::format(
          "ddprun: told to stop by {}; all workers have ended; exit status {}\n",
          signal_name(signal),
          status);
    });
  }
  journal_.record({.event = "job_ended", .attempt = supervisor_.attempt(), .exit_status = status});
  journal_.finish();
  streams_->finish(Clock::now() + kStreamsPatience, status == kExitOk);
  co_return status;
}

void Agent::stop_by(int signal) {
  journal_.record({.event = "told_to_stop", .attempt = supervisor_.attempt(), .signal = signal});
  if (stopped_by_ == 0) stopped_by_ = signal;
  feed(Supervisor::Signalled{.signal = signal});
}

void Agent::pass_on(int signal) {
  for (const pid_t pid : pids_) {
    if (pid > 0 && has_handler(pid, signal)) ::kill(pid, signal);
  }
}

void Agent::end_without_front() {
  const auto left = kill_descendants(Clock::now() + kUnkillableAfter);
  fmt::print(
      stderr,
      "ddprun: the process that was started is gone (killed?); every process of the job was "
      "killed{}\n",
      left.empty() ? "" : ", but for some that do not end");
  // Threads may be in the middle of a write, and nobody is left to be told a status.
  ::_exit(kExitDefect);
}

/// Events that arise while effects are performed wait their turn, so the core sees one at a time.
void Agent::feed(const Supervisor::Event& event) {
  events_.push_back(event);
  if (feeding_) return;
  feeding_ = true;
  while (!events_.empty()) {
    const auto next = std::move(events_.front());
    events_.pop_front();
    Supervisor::Effects effects;
    supervisor_.apply(next, Clock::now(), effects);
    for (const auto& effect : effects) {
      std::visit([this](const auto& what) { perform(what); }, effect);
    }
  }
  feeding_ = false;
  timer_.expires_at(supervisor_.next_deadline().value_or(kNever));  // ends keep_time's wait early
  if (untold_) tell(*std::exchange(untold_, std::nullopt));
}

asio::awaitable<void> Agent::keep_time() {
  for (;;) {
    const auto [re_armed] = co_await timer_.async_wait(kTuple);
    if (!re_armed) feed(Supervisor::Tick{});
  }
}

void Agent::perform(const Supervisor::StartAttempt& effect) {
  sweeping_ = 0;
  restart_reason_ = effect.reason;
  if (store_) {
    if (effect.attempt > 0) store_->begin_round();
    master_port_ = store_->port();
  } else if (plan_.master_port) {
    master_port_ = *plan_.master_port;
  } else if (const auto port = free_port()) {
    master_port_ = *port;
  }
  journal_.record({.event = "attempt_started", .attempt = effect.attempt, .text = effect.reason});
}

void Agent::perform(const Supervisor::Spawn& effect) {
  const int local_rank = effect.local_rank;
  auto started = start_worker(local_rank);
  if (!started) return feed(spawn_failed(local_rank, started.error()));
  const pid_t pid = started->pid;
  pids_[static_cast<std::size_t>(local_rank)] = pid;
  journal_.record(
      {.event = "worker_started",
       .attempt = supervisor_.attempt(),
       .local_rank = local_rank,
       .rank = local_rank,
       .pid = pid});
  // Without a pidfd (an old kernel, seccomp) SIGCHLD alone tells.
  if (started->pidfd) {
    asio::posix::stream_descriptor pidfd(context_, started->pidfd.release());
    tasks_.spawn(watch(pid, std::move(pidfd)));
  }
  feed(Supervisor::Spawned{.local_rank = local_rank, .pid = pid});
}

WorkerId Agent::id_of(int local_rank, int attempt) const {
  return {.attempt = attempt, .local_rank = local_rank, .rank = local_rank};
}

WorkerPlace Agent::place_of(int local_rank) const {
  WorkerPlace place;
  place.local_rank = local_rank;
  place.rank = local_rank;
  place.world_size = plan_.workers;
  place.attempt = supervisor_.attempt();
  place.round = supervisor_.attempt() + 1;
  place.restart_reason = restart_reason_;
  place.previous_world_size = plan_.workers;
  place.master_port = master_port_;
  place.nodes = host_;
  return place;
}

Result<Process> Agent::start_worker(int local_rank) {
  auto streams = streams_->attach(id_of(local_rank, supervisor_.attempt()));
  if (!streams) return streams.error();
  WorkerPlace place = place_of(local_rank);
  place.error_file = streams->error_file;
  error_files_[static_cast<std::size_t>(local_rank)] = streams->error_file;
  auto environment = worker_environment(plan_, place, inherited_);
  if (!environment) return environment.error();

  SpawnRequest request;
  request.program = with_local_rank(plan_.command.program, local_rank);
  for (const auto& argument : plan_.command.arguments) {
    request.arguments.push_back(with_local_rank(argument, local_rank));
  }
  request.environment = *std::move(environment);
  request.out = streams->out.get();
  request.err = streams->err.get();
  return spawn(request);
}

/// By its pidfd, so that of two deaths the earlier one is the first to be seen.
asio::awaitable<void> Agent::watch(pid_t pid, asio::posix::stream_descriptor pidfd) {
  const auto [error] = co_await pidfd.async_wait(asio::posix::stream_descriptor::wait_read, kTuple);
  int wait_status = 0;
  // reap() may have been here before; then the number is nobody's, or a stranger's.
  if (!error && is_running(pid) && ::waitpid(pid, &wait_status, WNOHANG) == pid) {
    ended(pid, wait_status);
  }
}

void Agent::reap() {
  for (;;) {
    int wait_status = 0;
    const pid_t pid = ::waitpid(-1, &wait_status, WNOHANG);
    if (pid < 0 && errno == EINTR) continue;
    if (pid < 0 && sweeping_ != 0) {
      sweeping_ = 0;
      return feed(Supervisor::Alone{});
    }
    if (pid <= 0) break;
    ended(pid, wait_status);
  }
  // What a killed parent leaves has become our child by now.
  if (sweeping_ == SIGKILL) signal_descendants(SIGKILL, Search::kQuick);
}

void Agent::ended(pid_t pid, int wait_status) {
  const auto found = std::ranges::find(pids_, pid);
  if (found == pids_.end()) return;  // an orphan that we adopted, and have now buried
  *found = 0;
  const auto local_rank = static_cast<int>(found - pids_.begin());
  const ProcessEnd end = end_of(wait_status);
  journal_.record(
      {.event = end.ok() ? "worker_succeeded" : "worker_failed",
       .attempt = supervisor_.attempt(),
       .local_rank = local_rank,
       .rank = local_rank,
       .pid = pid,
       .end = end});
  feed(Supervisor::Ended{.local_rank = local_rank, .end = end});
}

bool Agent::is_running(pid_t pid) const {
  return std::ranges::find(pids_, pid) != pids_.end();
}

void Agent::perform(const Supervisor::Send& effect) {
  const pid_t pid = pids_[static_cast<std::size_t>(effect.local_rank)];
  if (pid == 0) return;
  // It leads a session, so its group has its number, and keeps it until we reap it.
  if (::kill(-pid, effect.signal) != 0) ::kill(pid, effect.signal);
}

void Agent::perform(const Supervisor::Sweep& effect) {
  sweeping_ = effect.signal;
  reap();
  if (sweeping_ == 0) return;  // nobody was left
  const Search search = effect.signal == SIGKILL ? Search::kThorough : Search::kQuick;
  signal_descendants(effect.signal, search);
}

void Agent::perform(const Supervisor::Report& effect) {
  const AttemptReport& report = effect.report;
  // Workers that we stopped because a person asked for it are no news.
  if (report.stopped_by != 0 && report.failures.front().stopped_by_us) return;
  FailureReport out;
  out.title = plan_.command.title;
  out.host = host_;
  out.workers = plan_.workers;
  out.attempt = report;
  for (const auto& failure : report.failures) {
    const WorkerId id = id_of(failure.local_rank, report.attempt);
    out.others.push_back(
        {.failure = failure,
         .rank = id.rank,
         .wall_time = wall_time(failure.at),
         .error_file = error_files_[static_cast<std::size_t>(failure.local_rank)],
         .log = streams_->log_of(id)});
  }
  out.culprit = std::move(out.others.front());
  out.others.erase(out.others.begin());
  untold_ = std::move(out);
}

void Agent::perform(const Supervisor::GiveUp& effect) {
  for (const int local_rank : effect.local_ranks) {
    const pid_t pid = pids_[static_cast<std::size_t>(local_rank)];
    spdlog::error(
        "rank={} pid={} phase=unkillable: it does not end, even by SIGKILL (waits in {}); it is "
        "left, and this node starts no worker again",
        local_rank,
        pid,
        wait_channel(pid));
  }
  if (effect.local_ranks.empty()) {
    spdlog::error("phase=unkillable: a process that a worker left behind does not end");
  }
}

void Agent::perform(const Supervisor::Finish& effect) {
  exit_status_ = effect.exit_status;
  finished_.cancel();
}

void Agent::tell(FailureReport report) {
  const WorkerFailure& failure = report.culprit.failure;
  report.culprit.last_lines =
      streams_->last_lines(id_of(failure.local_rank, report.attempt.attempt), kLastLines);
  const char* const own = std::getenv(contract::kErrorFile);  // NOLINT(concurrency-mt-unsafe)
  const std::string pass_up_to = own == nullptr || report.attempt.restarts ? "" : own;
  journal_.tell(
      [report = std::move(report), pass_up_to] { return tell_failure(report, pass_up_to); });
}

}  // namespace ddprun
