#include "agent/agent.hpp"

#include "agent/console.hpp"
#include "base/exit_status.hpp"
#include "base/log.hpp"
#include "base/say.hpp"

#include <fmt/format.h>

#include <array>
#include <utility>

#include <unistd.h>

namespace ddprun {
namespace {

using namespace std::chrono_literals;

constexpr auto kUnkillableAfter = 5s;
constexpr auto kPatience = 2s;  // for each slow disk, pipe and console, once no worker is left

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
  auto consoles = Consoles::create();
  if (!consoles) return consoles.error();
  // Now, so that whatever goes wrong from here on can be said without waiting for a reader.
  auto err = (*consoles)->of(STDERR_FILENO);
  if (!err) return err.error();
  log_to(*err);
  auto meeting = open_meeting_point(context, plan);
  if (!meeting) return meeting.error();
  auto streams = Streams::open(plan, **consoles);
  if (!streams) return streams.error();
  const auto& directory = (*streams)->directory();
  auto journal = Journal::open(
      directory.empty() ? std::filesystem::path() : directory / kJournalName, *std::move(err));
  if (!journal) {
    (*streams)->tidy_up(true);
    return journal.error();
  }
  return std::unique_ptr<Agent>(new Agent(
      context,
      plan,
      std::move(inherited),
      {.consoles = *std::move(consoles),
       .streams = *std::move(streams),
       .journal = *std::move(journal),
       .meeting = *std::move(meeting)}));
}

Agent::Agent(
    asio::io_context& context,
    const LaunchPlan& plan,
    std::vector<std::string> inherited,
    Opened opened)
    : plan_(plan),
      host_(host_name()),
      consoles_(std::move(opened.consoles)),
      streams_(std::move(opened.streams)),
      journal_(std::move(opened.journal)),
      meeting_(std::move(opened.meeting)),
      supervisor_(policy_of(plan_)),
      timer_(context, kNever),
      finished_(context, kNever),
      tasks_(context.get_executor()),
      workers_(context, plan_, std::move(inherited), *streams_, tasks_),
      reporter_(
          {.plan = plan_,
           .host = host_,
           .streams = *streams_,
           .workers = workers_,
           .journal = *journal_}) {
  workers_.listen(
      {.ended =
           [this](int local_rank, pid_t pid, ProcessEnd end, bool leaves_group) {
             worker_ended(local_rank, pid, end, leaves_group);
           },
       .alone = [this] { feed(Supervisor::Alone{}); }});
}

Agent::~Agent() = default;

asio::awaitable<int> Agent::run() {
  if (meeting_.store) tasks_.spawn(meeting_.store->serve());
  tasks_.spawn(keep_time());
  tasks_.spawn(do_the_job());
  co_await tasks_.join();  // throws what one of them threw; the kernel then ends the workers
  co_return exit_status_ ? wind_up(*exit_status_) : kExitDefect;
}

asio::awaitable<void> Agent::do_the_job() {
  JournalEntry started = entry("job_started");
  started.text = plan_.command.title;
  journal_->record(started);
  feed(Supervisor::Begin{});
  while (!exit_status_) {
    co_await finished_.async_wait(kTuple);
  }
  tasks_.cancel();
}

/// Gives everything that was said time to arrive; each reader and each disk may be stuck.
int Agent::wind_up(int status) {
  streams_->finish(Clock::now() + kPatience);
  if (stopped_by_ != 0) {
    journal_->tell([signal = stopped_by_, status] {
      return fmt::format(
          "ddprun: told to stop by {}; all workers have ended; exit status {}\n",
          signal_name(signal),
          status);
    });
  }
  static_cast<void>(journal_->flush(Clock::now() + kPatience));  // if not, the second one says so
  for (const int stuck : consoles_->flush(kPatience)) {
    JournalEntry lost = entry("output_lost");
    lost.text = stuck == STDOUT_FILENO ? "stdout" : "stderr";
    journal_->record(lost);
  }
  JournalEntry ended = entry("job_ended");
  ended.exit_status = status;
  journal_->record(ended);
  if (journal_->flush(Clock::now() + kPatience)) {
    streams_->tidy_up(status == kExitOk);
  } else {
    say("ddprun: the disk of the log directory does not answer; the last events are lost\n");
  }
  return status;
}

void Agent::stop_by(int signal) {
  JournalEntry told = entry("told_to_stop");
  told.signal = signal;
  journal_->record(told);
  if (stopped_by_ == 0) stopped_by_ = signal;
  feed(Supervisor::Signalled{.signal = signal});
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
  reporter_.tell();
}

asio::awaitable<void> Agent::keep_time() {
  for (;;) {
    const auto [re_armed] = co_await timer_.async_wait(kTuple);
    if (!re_armed) feed(Supervisor::Tick{});
  }
}

void Agent::perform(const Supervisor::StartAttempt& effect) {
  restart_reason_ = effect.reason;
  if (meeting_.store && effect.attempt > 0) meeting_.store->begin_round();
  JournalEntry started = entry("attempt_started");
  started.text = effect.reason;
  journal_->record(started);
}

void Agent::perform(const Supervisor::Spawn& effect) {
  const int local_rank = effect.local_rank;
  const auto pid = workers_.start(place_of(local_rank));
  if (!pid) return feed(spawn_failed(local_rank, pid.error()));
  journal_->record(entry("worker_started", local_rank, *pid));
  feed(Supervisor::Spawned{.local_rank = local_rank, .pid = *pid});
}

void Agent::worker_ended(int local_rank, pid_t pid, ProcessEnd end, bool leaves_group) {
  JournalEntry news = entry(end.ok() ? "worker_succeeded" : "worker_failed", local_rank, pid);
  news.end = end;
  journal_->record(news);
  feed(Supervisor::Ended{.local_rank = local_rank, .end = end, .leaves_group = leaves_group});
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
  place.master_port = meeting_.port;
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
  workers_.sweep(effect.signal, effect.told_groups);
}

void Agent::perform(const Supervisor::Report& effect) {
  reporter_.note(effect.report);
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

}  // namespace ddprun
