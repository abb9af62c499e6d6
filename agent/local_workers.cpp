#include "agent/local_workers.hpp"

#include "agent/proc.hpp"
#include "base/exit_status.hpp"
#include "base/log.hpp"
#include "base/worker_contract.hpp"

#include <csignal>

namespace ddprun {
namespace {

SupervisorPolicy policy_of(const LaunchPlan& plan) {
  SupervisorPolicy policy;
  policy.workers = plan.workers;
  policy.grace = plan.shutdown_timeout;
  policy.notice_grace = plan.notice.grace;
  policy.leftovers = plan.leftovers;
  policy.workers_get_notices = !plan.slurm_step.empty();
  return policy;
}

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

LocalWorkers::LocalWorkers(
    asio::io_context& context,
    const Dependencies& dependencies,
    Inherited inherited,
    Callbacks callbacks)
    : dependencies_(dependencies),
      callbacks_(std::move(callbacks)),
      supervisor_(policy_of(dependencies.plan)),
      timer_(context, kNever),
      group_(
          context,
          {.plan = dependencies.plan,
           .streams = dependencies.streams,
           .starter = dependencies.starter,
           .tasks = dependencies.tasks},
          inherited),
      check_(context, dependencies.plan.node_check, std::move(inherited.environment), group_),
      reporter_(
          {.plan = dependencies.plan,
           .host = dependencies.host,
           .streams = dependencies.streams,
           .workers = group_,
           .journal = dependencies.journal,
           .tasks = dependencies.tasks},
          callbacks_.failure_read),
      news_(
          check_,
          dependencies.tasks,
          end_,
          {.news = callbacks_.news,
           .checked = [this](const std::string& unfit) { node_checked(unfit); }}) {
  group_.set_callbacks(
      {.started =
           [this](int local_rank, const Result<pid_t>& pid) { worker_started(local_rank, pid); },
       .ended =
           [this](int local_rank, pid_t pid, ProcessEnd end, bool leaves_group) {
             worker_ended(local_rank, pid, end, leaves_group);
           },
       .alone = [this] { feed(Supervisor::Alone{}); },
       .before_deaths = nullptr,
       .fork_server_lost =
           [this](const std::string& why) {
             JournalEntry lost = entry("fork_server_lost");
             lost.text = why;
             dependencies_.journal.record(lost);
             reporter_.fork_server_lost(why);
           }});
}

asio::awaitable<void> LocalWorkers::keep_time() {
  for (;;) {
    const auto [re_armed] = co_await timer_.async_wait(kTuple);
    if (!re_armed) feed(Supervisor::Tick{});
  }
}

void LocalWorkers::start(
    const effects::StartWorkers& round, std::vector<int> lines, std::string interface) {
  news_.expect_last_line(nullptr);
  group_.begin_round(std::move(lines));
  place_.round = round;
  place_.interface = std::move(interface);
  place_.notice_file = dependencies_.notice_file.path();
  dependencies_.steps.begin_round(round.place.group_size, dependencies_.plan.hang.is_watched);
  place_.step_file = dependencies_.steps.path();
  if (timers_ != nullptr) place_.timer_file = timers_->path();
  end_.begin_round();
  JournalEntry started = entry("attempt_started");
  started.text = round.progress.reason;
  dependencies_.journal.record(started);
  reporter_.round_begins(round, place_.interface);
  feed(Supervisor::StartRound{});
}

void LocalWorkers::node_checked(const std::string& unfit) {
  JournalEntry checked = entry(unfit.empty() ? "node_is_fit" : "node_is_unfit");
  checked.text = unfit;
  dependencies_.journal.record(checked);
}

void LocalWorkers::stop(const StopRound& order, bool is_reported_elsewhere) {
  if (order.notice == SIGKILL) return kill();
  const bool is_news = end_.add_order(order);
  if (is_news) {
    reporter_.order_came(is_reported_elsewhere);
    reporter_.report_end(end_, place_.round.place.world_size);
    news_.heed_order();
  }
  const LaunchPlan& plan = dependencies_.plan;
  // The others of an elastic job continue when this node leaves, and its workers may save as well.
  const bool leaves_alone = order.restarts && !order.culprit;
  const bool may_save = order.notice != 0 || leaves_alone;
  const int signal = end_.stopped_by;
  if (is_news && may_save && signal != 0 && !may_be_repeated(signal)) {
    reporter_.notice_came(signal, leaves_alone ? plan.shutdown_timeout : plan.notice.grace);
  }
  if (order.notice != 0) return notify_workers(order.notice);
  feed(Supervisor::StopRound{.signal = signal != 0 ? signal : SIGTERM});
}

void LocalWorkers::notify_workers(int notice) {
  if (end_.failure && end_.failure->may_come_of_notice()) {  // it was seen before the notice
    if (!end_.failure->has_saved()) end_.unsaved = end_.failure;
    end_.failure.reset();
  }
  const NoticePlan& plan = dependencies_.plan.notice;
  // Before the signal: so a worker can tell it from the end of a round that has failed.
  dependencies_.notice_file.write(notice, plan);
  const bool is_slurms = notice == SIGTERM && !plan.grace;
  feed(Supervisor::StopRound{
      .signal = plan.forward.value_or(notice),
      .is_notice = true,
      .killed_in = is_slurms ? plan.kill_wait : std::nullopt});
}

void LocalWorkers::kill() {
  news_.stop_waiting();
  feed(Supervisor::Kill{});
}

bool LocalWorkers::signalled(int signal) {
  if (end_.stopped_by == 0) end_.stopped_by = signal;
  news_.stop_waiting();
  feed(Supervisor::Signalled{.signal = signal, .is_repeated = may_be_repeated(signal)});
  return supervisor_.is_signalled_twice();
}

/// Slurm repeats the signals that it sends; SIGINT comes from a person.
bool LocalWorkers::may_be_repeated(int signal) const {
  const bool is_slurms = !dependencies_.plan.slurm_step.empty() && contract::is_notice(signal);
  return is_slurms && signal != SIGINT;
}

void LocalWorkers::timer_expired(const FileTimerRequest& timer) {
  JournalEntry expired = entry("timer_expired");
  expired.pid = timer.pid;
  expired.text = timer.scope;
  if (timer.signal > 0) expired.signal = timer.signal;
  dependencies_.journal.record(expired);
  reporter_.timer_expired(timer);
}

void LocalWorkers::hung(const HangReport& report, std::string stacks) {
  JournalEntry found = entry("hang");
  found.text = hang_paragraph(report);
  dependencies_.journal.record(found);
  reporter_.hung(report, std::move(stacks));
  if (!report.restarts) return;
  for (const HungWorker* const worker : to_be_ended(report)) {
    if (group_.pid_of(worker->local_rank) == 0) continue;
    end_.hung.insert(worker->local_rank);
    group_.send(worker->local_rank, SIGKILL);
  }
}

void LocalWorkers::training_resumed() {
  dependencies_.journal.record(entry("hang_over"));
  dependencies_.journal.report("training goes on: a step was made after all");
}

void LocalWorkers::feed(const Supervisor::Event& event) {
  const bool is_done = events_.run(event, [this](const Supervisor::Event& next) {
    Supervisor::Effects effects;
    supervisor_.apply(next, Clock::now(), effects);
    for (const auto& effect : effects) {
      std::visit([this](const auto& what) { perform(what); }, effect);
    }
  });
  // Ends keep_time's wait early.
  if (is_done) timer_.expires_at(supervisor_.next_deadline().value_or(kNever));
}

void LocalWorkers::perform(const Supervisor::Spawn& effect) {
  WorkerPlace place = place_;
  place.local_rank = effect.local_rank;
  place.stack_file = dependencies_.steps.stack_path(effect.local_rank);
  group_.start(std::move(place));
}

void LocalWorkers::perform(const Supervisor::CancelSpawn& effect) {
  if (!group_.cancel_start(effect.local_rank)) return;
  events_.put_first(Supervisor::SpawnCancelled{.local_rank = effect.local_rank});
}

void LocalWorkers::worker_started(int local_rank, const Result<pid_t>& pid) {
  if (!pid) return feed(spawn_failed(local_rank, pid.error()));
  dependencies_.journal.record(entry("worker_started", local_rank, *pid));
  reporter_.worker_started(first_rank() + local_rank, local_rank, *pid);
  feed(Supervisor::Spawned{.local_rank = local_rank, .pid = *pid});
}

void LocalWorkers::worker_ended(int local_rank, pid_t pid, ProcessEnd end, bool leaves_group) {
  JournalEntry news = entry(end.ok() ? "worker_succeeded" : "worker_failed", local_rank, pid);
  if (end.signal == SIGKILL) end.hung = end_.hung.contains(local_rank);
  news.end = end;
  dependencies_.journal.record(news);
  if (timers_ != nullptr) timers_->forget(pid);
  const bool was_stopped = end_.failure || end_.order || end_.stopped_by != 0;
  reporter_.worker_ended(local_rank, pid, end, was_stopped);
  // The others are looked at only if this end may follow from another one.
  WorkerFailure failure;
  failure.pid = pid;
  failure.end = end;
  const bool may_follow = failure.suspicion() != Suspicion::kCause;
  feed(Supervisor::Ended{
      .local_rank = local_rank,
      .end = end,
      .leaves_group = leaves_group,
      .others_end = !end_.order && may_follow && group_.is_one_ending()});
}

void LocalWorkers::perform(const Supervisor::News& effect) {
  const bool after_notice = end_.is_after_notice();
  if (after_notice && !end_.unsaved && !effect.failures.empty()) {
    end_.unsaved = failure_of(effect.failures.front());
  }
  if (!after_notice && effect.state == WorkersState::kFailed) {
    const WorkerFailure& culprit = effect.failures.front();
    end_.failure = failure_of(culprit);
    const bool may_repeat = end_.may_repeat(effect, dependencies_.plan.max_restarts);
    news_.expect_last_line(may_repeat ? reporter_.read_last_line(culprit, place_.round) : nullptr);
  }
  if (effect.state != WorkersState::kStopped) return news_.send(news_of(effect));
  reporter_.keep(effect, place_.round);
  reporter_.report_end(end_, place_.round.place.world_size);
  news_.send_stopped(news_of(effect));
}

void LocalWorkers::perform(const Supervisor::GiveUp& effect) {
  for (const int local_rank : effect.local_ranks) {
    const pid_t pid = group_.pid_of(local_rank);
    if (pid == 0) {
      spdlog::error(
          "rank={} phase=unkillable: its process is being made and waits for the disk of its "
          "program; this node leaves it, and takes no more part",
          first_rank() + local_rank);
      continue;
    }
    spdlog::error(
        "rank={} pid={} phase=unkillable: SIGKILL did not end it (waits in {}); this node leaves "
        "it, and takes no more part",
        first_rank() + local_rank,
        pid,
        wait_channel(pid).data());
  }
  if (effect.local_ranks.empty()) {
    spdlog::error(
        "phase=unkillable: SIGKILL did not end a process that a worker left behind; this node "
        "leaves it, and takes no more part");
  }
  reporter_.keep(effect.news, place_.round);
  callbacks_.gave_up(end_.exit_status_if_given_up(effect.news));
}

WorkerNews LocalWorkers::news_of(const Supervisor::News& news) const {
  WorkerNews out;
  out.round = place_.round.round;
  out.state = news.state;
  out.failure = end_.failure ? end_.failure : end_.unsaved;
  out.has_saved = news.has_saved;
  for (int rank = 0; news.state == WorkersState::kRunning && rank < dependencies_.plan.workers;
       ++rank) {
    out.pids.push_back(group_.pid_of(rank));
  }
  return out;
}

FailureNews LocalWorkers::failure_of(const WorkerFailure& failure) const {
  const bool has_started = failure.start_error.empty();
  FailureNews out;
  out.rank = first_rank() + failure.local_rank;
  out.local_rank = failure.local_rank;
  out.pid = failure.pid;
  out.host = dependencies_.host;
  out.how = failure.how();
  out.exit_status = failure.end.exit_status();
  out.signal = failure.end.signal;
  out.can_be_retried = failure.can_be_retried;
  out.needs_pause = !has_started && failure.can_be_retried;
  return out;
}

JournalEntry LocalWorkers::entry(std::string event) const {
  JournalEntry entry;
  entry.event = std::move(event);
  entry.round = place_.round.round;
  entry.attempt = place_.round.progress.attempt;
  entry.at = Clock::now();
  return entry;
}

JournalEntry LocalWorkers::entry(std::string event, int local_rank, pid_t pid) const {
  JournalEntry about = entry(std::move(event));
  about.local_rank = local_rank;
  about.rank = first_rank() + local_rank;
  about.pid = pid;
  return about;
}

}  // namespace ddprun
