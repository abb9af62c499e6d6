#include "agent/local_workers.hpp"

#include "base/exit_status.hpp"
#include "base/log.hpp"
#include "base/signal_name.hpp"
#include "base/worker_contract.hpp"
#include "rendezvous/core/crash_loop.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <span>
#include <utility>

namespace ddprun {
namespace {

using namespace std::chrono_literals;

/// Nobody reads as fast as workers are started anew, and the CPUs are theirs meanwhile.
constexpr Duration kBehindRestart = 20ms;

/// For the last line of a worker that crashed on start: longer than it takes to look into its pipes
/// (LastLines), but for a disk that hangs.
constexpr Duration kLastLinePatience = 300ms;

SupervisorPolicy policy_of(const LaunchPlan& plan) {
  SupervisorPolicy policy;
  policy.workers = plan.workers;
  policy.grace = plan.shutdown_timeout;
  policy.notice_grace = plan.notice.grace;
  policy.leftovers = plan.leftovers;
  policy.workers_get_notices = !plan.slurm_step.empty();
  return policy;
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

std::string until_killed(const std::optional<Duration>& kill_in) {
  if (!kill_in) return "no SIGKILL before Slurm's";
  return fmt::format("SIGKILL in {:.1f} s", to_seconds(*kill_in));
}

const char* why_killed(LeftoverMode asked, bool is_signalled) {
  switch (asked) {
    case LeftoverMode::kKill:
      return "--leftover wait or keep would let it finish";
    case LeftoverMode::kWait:
      return is_signalled ? "a signal ended the wait" : "the wait is over";
    case LeftoverMode::kKeep:
      return "they are kept only when the whole job has succeeded";
  }
  return "";
}

}  // namespace

LocalWorkers::LocalWorkers(
    asio::io_context& context,
    const Dependencies& dependencies,
    Inherited inherited,
    Callbacks callbacks)
    : context_(context),
      dependencies_(dependencies),
      callbacks_(std::move(callbacks)),
      supervisor_(policy_of(dependencies.plan)),
      timer_(context, kNever),
      group_(context, dependencies.plan, inherited, dependencies.streams, dependencies.tasks),
      check_(context, dependencies.plan.node_check, std::move(inherited.environment), group_),
      reporter_(
          {.plan = dependencies.plan,
           .host = dependencies.host,
           .streams = dependencies.streams,
           .workers = group_,
           .journal = dependencies.journal}),
      torch_events_(dependencies.plan, dependencies.host, dependencies.journal) {
  group_.set_callbacks(
      {.ended =
           [this](int local_rank, pid_t pid, ProcessEnd end, bool leaves_group) {
             worker_ended(local_rank, pid, end, leaves_group);
           },
       .alone = [this] { feed(Supervisor::Alone{}); }});
}

asio::awaitable<void> LocalWorkers::keep_time() {
  for (;;) {
    const auto [re_armed] = co_await timer_.async_wait(kTuple);
    if (!re_armed) feed(Supervisor::Tick{});
  }
}

void LocalWorkers::start(
    const effects::StartWorkers& round, std::vector<int> lines, std::string interface) {
  if (reporter_.has_noted()) {  // whoever decided this did not live to say so
    Outcome outcome;
    outcome.restarts = true;
    outcome.restarts_used = round.progress.restarts_used;
    outcome.restarts_max = dependencies_.plan.max_restarts;
    reporter_.conclude(outcome);
  }
  last_line_.reset();
  group_.hand_down(std::move(lines));
  round_ = round;
  interface_ = std::move(interface);
  failed_.reset();
  unsaved_.reset();
  order_.reset();
  JournalEntry started = entry("attempt_started");
  started.text = round.progress.reason;
  dependencies_.journal.record(started);
  reporter_.attempt_begins(round, interface_);
  torch_events_.round_begins(round_);
  feed(Supervisor::StartRound{});
}

void LocalWorkers::check_node(NodeCheck::OnDone on_done) {
  check_.begin([this, on_done = std::move(on_done)](const std::string& why) {
    unfit_ = why;
    JournalEntry checked = entry(why.empty() ? "node_is_fit" : "node_is_unfit");
    checked.text = why;
    dependencies_.journal.record(checked);
    on_done(why);
  });
}

/// Whoever waits for it waits for no check any more.
void LocalWorkers::abandon_check() {
  check_.abandon();
  release_news();
}

/// A failure began here, as far as is known, and workers are to be started again.
bool LocalWorkers::is_suspicious() const {
  if (!check_.is_wanted() || !failed_ || stopped_by_ != 0) return false;
  if (failed_->suspicion() == Suspicion::kLostPeer || !failed_->can_be_retried) return false;
  return began_here() && (!order_ || order_->restarts);
}

/// The round ends for what failed here, as far as is known.
bool LocalWorkers::began_here() const {
  if (!failed_) return false;
  return !order_ || !order_->culprit || order_->culprit->is_of_same_worker(*failed_);
}

/// That the workers have stopped, once all is known that has a say in the next attempt.
void LocalWorkers::release_news() {
  if (check_.is_running() || last_line_) return;
  auto news = std::exchange(held_, std::nullopt);
  if (!news) return;
  news->unfit = unfit_;
  report(*std::move(news));
}

void LocalWorkers::report(WorkerNews news) {
  told_ = std::move(news);
  callbacks_.news(told_);
}

void LocalWorkers::stop(const StopRound& order, bool is_said_elsewhere) {
  if (order.notice == SIGKILL) return kill();
  const bool is_news = !order_ || (!order_->culprit && order.culprit);
  if (is_news) {
    order_ = order;
    is_said_elsewhere_ = is_said_elsewhere;
    has_told_stop_ = false;
    report();
    if (!began_here() || !order.restarts) last_line_.reset();
    if (held_ && !is_suspicious()) abandon_check();
  }
  // The others of an elastic job go on where this node leaves, and its workers may save as well.
  const bool leaves_alone = order.restarts && !order.culprit;
  const bool may_save = order.notice != 0 || leaves_alone;
  if (is_news && may_save && stopped_by_ != 0 && !may_be_repeated(stopped_by_)) {
    report_grace(
        leaves_alone ? dependencies_.plan.shutdown_timeout : dependencies_.plan.notice.grace);
  }
  if (order.notice == 0) {
    return feed(Supervisor::StopRound{.signal = stopped_by_ != 0 ? stopped_by_ : SIGTERM});
  }
  if (failed_ && failed_->may_come_of_notice()) {  // it was seen before the notice
    if (!failed_->has_saved()) unsaved_ = failed_;
    failed_.reset();
  }
  // Before the signal: so a worker can tell it from the end of a round that has failed.
  dependencies_.notice_file.write(order.notice, dependencies_.plan.notice);
  const int signal = dependencies_.plan.notice.forward.value_or(order.notice);
  const bool is_slurms = order.notice == SIGTERM && !dependencies_.plan.notice.grace;
  feed(Supervisor::StopRound{
      .signal = signal,
      .is_notice = true,
      .killed_in = is_slurms ? dependencies_.plan.notice.kill_wait : std::nullopt});
}

void LocalWorkers::kill() {
  last_line_.reset();
  abandon_check();
  feed(Supervisor::Kill{});
}

bool LocalWorkers::signalled(int signal) {
  if (stopped_by_ == 0) stopped_by_ = signal;
  last_line_.reset();
  abandon_check();
  feed(Supervisor::Signalled{.signal = signal, .is_repeated = may_be_repeated(signal)});
  return supervisor_.is_told_twice();
}

bool LocalWorkers::may_be_repeated(int signal) const {
  const bool is_slurms = !dependencies_.plan.slurm_step.empty() && contract::is_notice(signal);
  return is_slurms && signal != SIGINT;
}

void LocalWorkers::report_grace(std::optional<Duration> grace) {
  dependencies_.journal.report(
      [text = fmt::format(
           "ddprun: told to stop by {}: the workers may save and end{}; a second "
           "signal ends them at once\n",
           signal_name(stopped_by_),
           grace ? fmt::format(", for {:.0f} s", to_seconds(*grace)) : "")] { return text; });
}

void LocalWorkers::timer_expired(const FileTimerRequest& timer) {
  JournalEntry expired = entry("timer_expired");
  expired.pid = timer.pid;
  expired.text = timer.scope;
  if (timer.signal > 0) expired.signal = timer.signal;
  dependencies_.journal.record(expired);
  const std::string next =
      timer.signal > 0 ? fmt::format("it is sent {}", signal_name(timer.signal)) : "it goes on";
  dependencies_.journal.report([line = fmt::format(
                                    "ddprun: process {} on {} let its timer '{}' expire; {}\n",
                                    timer.pid,
                                    dependencies_.host,
                                    timer.scope,
                                    next)] { return line; });
}

void LocalWorkers::finish(int exit_status) {
  if (reporter_.has_noted()) {
    Outcome outcome;
    outcome.exit_status = exit_status;
    outcome.restarts_max = dependencies_.plan.max_restarts;
    outcome.stopped_by = stopped_by_;
    reporter_.conclude(outcome);
  }
  static_cast<void>(reporter_.report());
  torch_events_.job_ended(exit_status);
}

/// Events that arise while effects are performed wait their turn, so the core sees one at a time.
void LocalWorkers::feed(const Supervisor::Event& event) {
  // What became of a Spawn is told before anything else.
  const bool is_answer = std::holds_alternative<Supervisor::Spawned>(event) ||
                         std::holds_alternative<Supervisor::SpawnFailed>(event);
  events_.insert(is_answer ? events_.begin() : events_.end(), event);
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
}

void LocalWorkers::perform(const Supervisor::Spawn& effect) {
  const int local_rank = effect.local_rank;
  const WorkerPlace place = place_of(local_rank);
  const auto pid = group_.start(place);
  if (!pid) return feed(spawn_failed(local_rank, pid.error()));
  if (dependencies_.plan.debug_rank == place.rank) reporter_.worker_waits(place.rank, *pid);
  dependencies_.journal.record(entry("worker_started", local_rank, *pid));
  torch_events_.worker_started(local_rank, *pid);
  feed(Supervisor::Spawned{.local_rank = local_rank, .pid = *pid});
}

void LocalWorkers::worker_ended(int local_rank, pid_t pid, ProcessEnd end, bool leaves_group) {
  JournalEntry news = entry(end.ok() ? "worker_succeeded" : "worker_failed", local_rank, pid);
  news.end = end;
  dependencies_.journal.record(news);
  if (timers_ != nullptr) timers_->forget(pid);
  const bool was_stopped = failed_ || order_ || stopped_by_ != 0;
  torch_events_.worker_ended(local_rank, pid, end, was_stopped);
  // Only one that may have followed another is no cause, and only then the others are looked at.
  WorkerFailure failure;
  failure.pid = pid;
  failure.end = end;
  const bool may_follow = failure.suspicion() != Suspicion::kCause;
  feed(Supervisor::Ended{
      .local_rank = local_rank,
      .end = end,
      .leaves_group = leaves_group,
      .others_end = !order_ && may_follow && group_.is_one_ending()});
}

void LocalWorkers::perform(const Supervisor::Send& effect) {
  group_.send(effect.local_rank, effect.signal);
}

void LocalWorkers::perform(const Supervisor::Sweep& effect) {
  group_.sweep(effect.signal, effect.told_groups);
}

void LocalWorkers::perform(const Supervisor::News& effect) {
  const bool after_notice = order_ && order_->notice != 0;
  if (after_notice && !unsaved_ && !effect.failures.empty()) {
    unsaved_ = failure_of(effect.failures.front());
  }
  if (!after_notice && effect.state == WorkersState::kFailed) {
    failed_ = failure_of(effect.failures.front());
    last_line_.reset();  // of a less likely culprit
    if (may_repeat(effect)) last_line_ = reporter_.read_last_line(effect.failures.front(), round_);
    if (last_line_) dependencies_.tasks.spawn(await_last_line(last_line_));
  }
  if (effect.state == WorkersState::kStopped) {
    reporter_.note(effect, round_);
    report();
  }
  const WorkerNews news = news_of(effect);
  if (effect.state != WorkersState::kStopped) return report(news);
  // Nobody starts workers anew while it is not told.
  held_ = news;
  if (is_suspicious()) return check_node([this](const std::string& /*why*/) { release_news(); });
  release_news();
}

/// It ended by itself so soon after its start that the next attempt may end alike (CrashLoop).
bool LocalWorkers::may_repeat(const Supervisor::News& news) const {
  const WorkerFailure& first = news.failures.front();
  const bool has_exited = first.pid != 0 && first.end.signal == 0;
  const bool is_followed = dependencies_.plan.max_restarts > 0 && !order_ && stopped_by_ == 0;
  return is_followed && has_exited && first.suspicion() != Suspicion::kLostPeer &&
         news.ran_for < kStartLimit;
}

/// The failure was told at once, lest one that follows from it overtakes it; now once more.
asio::awaitable<void> LocalWorkers::await_last_line(std::shared_ptr<Errand<std::string>> line) {
  Timer limit(context_, Clock::now() + kLastLinePatience);
  const auto read = co_await line->await(limit);
  if (line != last_line_) co_return;  // nobody waits for this one any more
  last_line_.reset();
  if (read && *read && failed_) {
    failed_->last_line = TextLine{.text = **read};
    if (held_) held_->failure = failed_;
    if (told_.failure) told_.failure = failed_;
    callbacks_.news(told_);
  }
  release_news();
}

void LocalWorkers::perform(const Supervisor::GiveUp& effect) {
  for (const int local_rank : effect.local_ranks) {
    const pid_t pid = group_.pid_of(local_rank);
    spdlog::error(
        "rank={} pid={} phase=unkillable: it does not end, even by SIGKILL (waits in {}); it is "
        "left, and this node starts no worker again",
        round_.place.first_rank + local_rank,
        pid,
        wait_channel(pid));
  }
  if (effect.local_ranks.empty()) {
    spdlog::error("phase=unkillable: a process that a worker left behind does not end");
  }
  reporter_.note(effect.news, round_);
  callbacks_.gave_up(exit_status_without_end(effect.news));
}

void LocalWorkers::perform(const Supervisor::WaitsForChildren& effect) {
  const std::string who = WorkerGroup::leftovers();
  if (who.empty()) return;  // the last of them has just ended
  dependencies_.journal.report(
      [line = fmt::format(
           "ddprun: waiting for what workers left behind on {} to end: {}; {}\n",
           dependencies_.host,
           who,
           until_killed(effect.kill_in))] { return line; });
}

void LocalWorkers::perform(const Supervisor::WaitsForWorkers& effect) {
  constexpr std::size_t kShownMax = 8;
  std::string who;
  for (const int local_rank :
       std::span(effect.local_ranks).first(std::min(kShownMax, effect.local_ranks.size()))) {
    who += fmt::format(
        "{}rank {} (pid {})",
        who.empty() ? "" : ", ",
        round_.place.first_rank + local_rank,
        group_.pid_of(local_rank));
  }
  if (effect.local_ranks.size() > kShownMax) who += ", ...";
  dependencies_.journal.report([text = fmt::format(
                                    "ddprun: waiting for {} of {} workers on {} to end: {}; {}\n",
                                    effect.local_ranks.size(),
                                    dependencies_.plan.workers,
                                    dependencies_.host,
                                    who,
                                    until_killed(effect.kill_in))] { return text; });
}

void LocalWorkers::perform(const Supervisor::Leftovers& effect) {
  const std::string who = WorkerGroup::leftovers();
  if (who.empty()) return;  // the last of them has just ended
  const std::string where = fmt::format("what workers left behind on {}", dependencies_.host);
  std::string text;
  switch (effect.mode) {
    case LeftoverMode::kKill:
      text = fmt::format(
          "killing {}: {}; {}",
          where,
          who,
          why_killed(dependencies_.plan.leftovers.mode, stopped_by_ != 0));
      break;
    case LeftoverMode::kWait:
      text = fmt::format(
          "waiting for {}: {}; timeout {:g} s; a signal ends the wait",
          where,
          who,
          to_seconds(dependencies_.plan.leftovers.limit));
      break;
    case LeftoverMode::kKeep:
      text = fmt::format("{} lives on: {}", where, who);
  }
  dependencies_.journal.report([line = fmt::format("ddprun: {}\n", text)] { return line; });
}

int LocalWorkers::exit_status_without_end(const Supervisor::News& news) const {
  if (order_ && order_->culprit && !order_->restarts) return order_->culprit->exit_status;
  if (stopped_by_ != 0) return exit_status_of_signal(stopped_by_);
  const bool failed_here = !news.failures.empty() && !news.failures.front().stopped_by_us;
  return failed_here ? news.failures.front().end.exit_status() : kExitTryAgain;
}

/// Tells a person how the round ended, once it is known what follows, and, where it failed here,
/// once nothing of it runs.
void LocalWorkers::report() {
  if (!order_) return;
  const StopRound order = *order_;
  has_told_end_ = has_told_end_ || (order.culprit && !order.restarts);
  const bool failed_here = began_here();
  if (failed_here && !reporter_.has_noted()) return;
  if (failed_here) {
    reporter_.conclude(outcome(order));
    dependencies_.tasks.spawn(report_failure(order.restarts ? kBehindRestart : Duration::zero()));
    return;
  }
  // A failure here in the round before may not be told yet: this one was over at once.
  dependencies_.tasks.spawn(pass_on(reporter_.report()));
  reporter_.forget();
  if (std::exchange(has_told_stop_, true)) return;
  // Where a worker failed its node says more than this line.
  const bool has_paragraph = order.culprit && order.culprit->pid != 0;
  if (is_said_elsewhere_ || (dependencies_.plan.shares_console && has_paragraph)) return;
  auto line =
      stop_line(dependencies_.plan.command.title, order, outcome(order), round_.place.world_size);
  if (!line.empty()) dependencies_.journal.report([text = std::move(line)] { return text; });
}

/// A person, and then the leader, for its console.
asio::awaitable<void> LocalWorkers::report_failure(Duration pause) {
  Timer behind(context_, Clock::now() + pause);
  co_await behind.async_wait(kTuple);
  co_await pass_on(reporter_.report());
}

/// The last output of a failure that was told here, to the leader once it was read.
asio::awaitable<void> LocalWorkers::pass_on(std::optional<Reporter::LastOutput> output) {
  if (!output || !output->lines) co_return;
  Timer no_limit(context_, kNever);
  auto lines = co_await output->lines->await(no_limit);
  if (!lines || !*lines) co_return;
  callbacks_.failure_read(
      {.round = output->round, .rank = output->rank, .lines = **std::move(lines)});
}

Outcome LocalWorkers::outcome(const StopRound& order) const {
  const auto& culprit = order.culprit ? order.culprit : failed_;
  Outcome outcome;
  outcome.restarts = order.restarts;
  outcome.restarts_used = order.restarts_used;
  outcome.restarts_max = order.restarts_max;
  outcome.crashes = order.crashes;
  outcome.repeats = order.repeats;
  outcome.pause = order.pause;
  outcome.can_be_retried = !culprit || culprit->can_be_retried;
  outcome.exit_status = culprit ? culprit->exit_status : kExitTryAgain;
  outcome.stopped_by = stopped_by_;
  if (stopped_by_ != 0 && order.restarts) {
    outcome.restarts = false;
    outcome.exit_status = exit_status_of_signal(stopped_by_);
  }
  return outcome;
}

WorkerNews LocalWorkers::news_of(const Supervisor::News& news) const {
  WorkerNews out;
  out.round = round_.round;
  out.state = news.state;
  out.failure = failed_ ? failed_ : unsaved_;
  out.has_saved = news.has_saved;
  if (news.state == WorkersState::kStopped) out.unfit = unfit_;
  for (int rank = 0; news.state == WorkersState::kRunning && rank < dependencies_.plan.workers;
       ++rank) {
    out.pids.push_back(group_.pid_of(rank));
  }
  return out;
}

FailureNews LocalWorkers::failure_of(const WorkerFailure& failure) const {
  const bool has_started = failure.start_error.empty();
  FailureNews out;
  out.rank = round_.place.first_rank + failure.local_rank;
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

WorkerPlace LocalWorkers::place_of(int local_rank) const {
  WorkerPlace place;
  place.local_rank = local_rank;
  place.rank = round_.place.first_rank + local_rank;
  place.world_size = round_.place.world_size;
  place.group_rank = round_.place.group_rank;
  place.group_size = round_.place.group_size;
  place.attempt = round_.progress.attempt;
  place.term = round_.round.term;
  place.round = round_.round.number;
  place.restart_reason = round_.progress.reason;
  place.previous_world_size = round_.progress.previous_world;
  place.master = round_.master;
  place.nodes = round_.hosts;
  place.interface = interface_;
  place.notice_file = dependencies_.notice_file.path();
  if (timers_ != nullptr) place.timer_file = timers_->path();
  return place;
}

JournalEntry LocalWorkers::entry(std::string event) const {
  JournalEntry entry;
  entry.event = std::move(event);
  entry.round = round_.round;
  entry.attempt = round_.progress.attempt;
  entry.at = Clock::now();
  return entry;
}

JournalEntry LocalWorkers::entry(std::string event, int local_rank, pid_t pid) const {
  JournalEntry about = entry(std::move(event));
  about.local_rank = local_rank;
  about.rank = round_.place.first_rank + local_rank;
  about.pid = pid;
  return about;
}

}  // namespace ddprun
