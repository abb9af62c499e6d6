#include "agent/agent.hpp"

#include "agent/descendants.hpp"
#include "agent/error_file.hpp"
#include "agent/report.hpp"
#include "base/exit_status.hpp"
#include "base/log.hpp"
#include "base/say.hpp"
#include "base/worker_contract.hpp"

#include <fmt/format.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <utility>

#include <netinet/in.h>
#include <sys/socket.h>
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
  LaunchPlan settled = plan;
  if (store) settled.master_port = store->port();
  if (!settled.master_port) {
    const auto port = free_port();
    if (!port) return port.error();
    settled.master_port = *port;
  }
  return std::unique_ptr<Agent>(new Agent(
      context, std::move(settled), std::move(inherited), *std::move(streams), std::move(store)));
}

Agent::Agent(
    asio::io_context& context,
    LaunchPlan plan,
    std::vector<std::string> inherited,
    std::unique_ptr<Streams> streams,
    std::unique_ptr<StoreServer> store)
    : plan_(std::move(plan)),
      host_(host_name()),
      streams_(std::move(streams)),
      store_(std::move(store)),
      journal_(
          streams_->directory().empty() ? std::filesystem::path()
                                        : streams_->directory() / kJournalName),
      supervisor_(policy_of(plan_)),
      timer_(context, kNever),
      finished_(context, kNever),
      tasks_(context.get_executor()),
      workers_(context, plan_, std::move(inherited), *streams_, tasks_) {
  workers_.listen(
      {.ended =
           [this](int local_rank, pid_t pid, ProcessEnd end) {
             worker_ended(local_rank, pid, end);
           },
       .alone = [this] { feed(Supervisor::Alone{}); }});
}

Agent::~Agent() = default;

asio::awaitable<int> Agent::run() {
  if (store_) tasks_.spawn(store_->serve());
  tasks_.spawn(keep_time());
  JournalEntry started = entry("job_started");
  started.text = plan_.command.title;
  journal_.record(started);
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
  JournalEntry ended = entry("job_ended");
  ended.exit_status = status;
  journal_.record(ended);
  journal_.finish();
  streams_->finish(Clock::now() + kStreamsPatience, status == kExitOk);
  co_return status;
}

void Agent::stop_by(int signal) {
  JournalEntry told = entry("told_to_stop");
  told.signal = signal;
  journal_.record(told);
  if (stopped_by_ == 0) stopped_by_ = signal;
  feed(Supervisor::Signalled{.signal = signal});
}

void Agent::end_without_front() {
  const auto left = kill_descendants(Clock::now() + kUnkillableAfter);
  say("ddprun: the process that was started is gone (killed?); every process of the job was "
      "killed");
  say(left.empty() ? "\n" : ", but for some that do not end\n");
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
  if (auto report = std::exchange(untold_, std::nullopt)) tell(*std::move(report));
}

asio::awaitable<void> Agent::keep_time() {
  for (;;) {
    const auto [re_armed] = co_await timer_.async_wait(kTuple);
    if (!re_armed) feed(Supervisor::Tick{});
  }
}

void Agent::perform(const Supervisor::StartAttempt& effect) {
  restart_reason_ = effect.reason;
  if (store_ && effect.attempt > 0) store_->begin_round();
  JournalEntry started = entry("attempt_started");
  started.text = effect.reason;
  journal_.record(started);
}

void Agent::perform(const Supervisor::Spawn& effect) {
  const int local_rank = effect.local_rank;
  const auto pid = workers_.start(place_of(local_rank));
  if (!pid) return feed(spawn_failed(local_rank, pid.error()));
  journal_.record(entry("worker_started", local_rank, *pid));
  feed(Supervisor::Spawned{.local_rank = local_rank, .pid = *pid});
}

void Agent::worker_ended(int local_rank, pid_t pid, ProcessEnd end) {
  JournalEntry news = entry(end.ok() ? "worker_succeeded" : "worker_failed", local_rank, pid);
  news.end = end;
  journal_.record(news);
  feed(Supervisor::Ended{.local_rank = local_rank, .end = end});
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
  place.master_port = plan_.master_port.value_or(0);  // settled by open()
  place.nodes = host_;
  return place;
}

JournalEntry Agent::entry(std::string event) const {
  JournalEntry entry;
  entry.event = std::move(event);
  entry.attempt = supervisor_.attempt();
  entry.at = Clock::now();
  return entry;
}

JournalEntry Agent::entry(std::string event, int local_rank, pid_t pid) const {
  JournalEntry about = entry(std::move(event));
  about.local_rank = local_rank;
  about.rank = local_rank;
  about.pid = pid;
  return about;
}

void Agent::perform(const Supervisor::Send& effect) {
  workers_.send(effect.local_rank, effect.signal);
}

void Agent::perform(const Supervisor::Sweep& effect) {
  workers_.sweep(effect.signal);
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
    FailureDetails details;
    details.failure = failure;
    details.rank = id.rank;
    details.wall_time = wall_time(failure.at);
    details.error_file = workers_.error_file_of(failure.local_rank);
    details.log = streams_->log_of(id);
    out.others.push_back(std::move(details));
  }
  out.culprit = std::move(out.others.front());
  out.others.erase(out.others.begin());
  untold_ = std::move(out);
}

void Agent::perform(const Supervisor::GiveUp& effect) {
  for (const int local_rank : effect.local_ranks) {
    const pid_t pid = workers_.pid_of(local_rank);
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
