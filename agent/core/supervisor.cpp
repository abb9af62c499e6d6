#include "agent/core/supervisor.hpp"

#include "base/check.hpp"

#include <algorithm>
#include <cstddef>
#include <utility>

namespace ddprun {

using Phase = SupervisorPhase;
using Input = SupervisorInput;

Supervisor::Supervisor(SupervisorPolicy policy)
    : policy_(policy), workers_(static_cast<std::size_t>(policy.workers)) {
  DDPRUN_CHECK(policy.workers >= 1);
}

void Supervisor::apply(const Event& event, TimePoint now, Effects& out) {
  std::visit([&](const auto& what) { on(what, now, out); }, event);
}

void Supervisor::on(const StartRound& event, TimePoint now, Effects& out) {
  round_ = {};
  step(Input::kStartRound, event, now, out);
}

void Supervisor::on(const StopRound& event, TimePoint now, Effects& out) {
  step(Input::kStopRound, event, now, out);
}

void Supervisor::on(const Kill& event, TimePoint now, Effects& out) {
  step(Input::kKill, event, now, out);
}

void Supervisor::on(const Spawned& event, TimePoint now, Effects& out) {
  worker(event.local_rank).pid = event.pid;
  advance(event.local_rank, WorkerInput::kStarted, out);
  step(Input::kSpawned, event, now, out);
}

void Supervisor::on(const SpawnFailed& event, TimePoint now, Effects& out) {
  record_end(
      WorkerFailure{
          .local_rank = event.local_rank,
          .pid = 0,
          .end = ProcessEnd{.code = event.exit_status, .signal = 0},
          .at = now,
          .stopped_by_us = false,
          .start_error = event.why,
          .can_be_retried = event.can_be_retried},
      out);
  step(Input::kEnded, event, now, out);
}

void Supervisor::on(const SpawnCancelled& event, TimePoint now, Effects& out) {
  advance(event.local_rank, WorkerInput::kReaped, out);
  step(Input::kEnded, event, now, out);
}

void Supervisor::on(const Ended& event, TimePoint now, Effects& out) {
  Worker& ended = worker(event.local_rank);
  ended.leaves_group = event.leaves_group;
  // An out-of-memory kill, for one, may come while the worker is being stopped.
  const bool is_killed = event.end.signal == SIGKILL && ended.state == WorkerState::kKilling;
  const bool is_our_end =
      event.end.signal == 0 || event.end.signal == round_.stop_signal || is_killed;
  record_end(
      WorkerFailure{
          .local_rank = event.local_rank,
          .pid = ended.pid,
          .end = event.end,
          .at = now,
          .stopped_by_us = ended.stopped_by_us && is_our_end,
          .start_error = ""},
      out);
  step(Input::kEnded, event, now, out);
}

void Supervisor::on(const Alone& event, TimePoint now, Effects& out) {
  step(Input::kAlone, event, now, out);
}

void Supervisor::on(const Signalled& event, TimePoint now, Effects& out) {
  const auto last = last_signal_;
  if (event.signal == last.number && now - last.at < policy_.same_signal_within) return;
  last_signal_ = {.number = event.signal, .at = now};
  step(Input::kSignalled, event, now, out);
  const bool is_first = last.number == 0;
  if (is_first || event.is_repeated) return;
  is_signalled_twice_ = true;
  step(Input::kKill, event, now, out);
}

void Supervisor::on(const Tick& event, TimePoint now, Effects& out) {
  if (deadline_ && now >= *deadline_) return step(Input::kTimeout, event, now, out);
  if (report_at_ && now >= *report_at_) report_wait(now, out);
}

void Supervisor::step(Input input, const Event& event, TimePoint now, Effects& out) {
  const SupervisorStep found = ddprun::step(phase_, input);
  const SupervisorPhase next = found.next.value_or(phase_);
  switch (found.action) {
    case SupervisorAction::kEnter:
      return enter(next, event, now, out);
    case SupervisorAction::kNothing:
      return;
    case SupervisorAction::kCountSpawned:
      return count_spawned(now, out);
    case SupervisorAction::kJudge:
      return judge(event, now, out);
    case SupervisorAction::kCheckSaved:
      check_saved(now, out);
      if (none_runs()) step(Input::kLastEnded, event, now, out);
      return;
    case SupervisorAction::kShortenGrace:
      if (!std::get<StopRound>(event).is_notice) shorten_grace(now);
      return;
    case SupervisorAction::kForget:
      phase_ = next;
      return;
    case SupervisorAction::kApplyLeftover:
      return enter(after_settling(policy_.leftovers.mode), event, now, out);
    case SupervisorAction::kBug:
      DDPRUN_CHECK(false && "the supervisor table has no such step");
  }
}

/// Orders what the phase is for, and sets its limit.
void Supervisor::enter(Phase next, const Event& event, TimePoint now, Effects& out) {
  phase_ = next;
  report_at_.reset();
  const auto grace_ends = std::exchange(deadline_, std::nullopt);
  switch (next) {
    case Phase::kIdle:
      out.emplace_back(
          news(round_.has_succeeded ? WorkersState::kSucceeded : WorkersState::kStopped));
      return;
    case Phase::kKeeping:
      out.emplace_back(Leftovers{.mode = LeftoverMode::kKeep});
      out.emplace_back(news(WorkersState::kSucceeded));
      return;
    case Phase::kRunning:
      round_.began = now;
      std::ranges::fill(workers_, Worker{});
      report_at_ = now + policy_.quiet_start;
      return advance_all(WorkerInput::kStart, out);
    case Phase::kStopping: {
      const auto* const order = std::get_if<StopRound>(&event);  // null: a worker failed
      stop_workers(order == nullptr ? StopRound{} : *order, now, out);
      if (none_runs()) step(Input::kLastEnded, event, now, out);
      return;
    }
    case Phase::kKilling:
      deadline_ = now + policy_.unkillable_after;
      advance_all(WorkerInput::kKill, out);
      if (none_runs()) step(Input::kLastEnded, event, now, out);
      return;
    case Phase::kSettling:
      round_.has_succeeded = true;
      deadline_ = now + policy_.leftover_settle;
      out.emplace_back(Sweep{.signal = 0, .signalled_groups = {}});
      return;
    case Phase::kWaiting:
      deadline_ = now + policy_.leftovers.limit;
      out.emplace_back(Leftovers{.mode = LeftoverMode::kWait});
      return;
    case Phase::kSweeping:
      if (round_.has_succeeded) out.emplace_back(Leftovers{.mode = LeftoverMode::kKill});
      return sweep(grace_ends, now, out);
    case Phase::kClearing:
      out.emplace_back(Leftovers{.mode = LeftoverMode::kKill});
      [[fallthrough]];
    case Phase::kSweepKilling:
      deadline_ = now + policy_.unkillable_after;
      out.emplace_back(Sweep{.signal = SIGKILL, .signalled_groups = {}});
      return;
    case Phase::kGivenUp:
      out.emplace_back(GiveUp{
          .local_ranks = ranks_in({WorkerState::kKilling, WorkerState::kKillOnStart}),
          .news = news(WorkersState::kStopped)});
  }
}

void Supervisor::count_spawned(TimePoint now, Effects& out) {
  report_at_.reset();
  if (!round_.failures.empty()) return;
  const bool all_started = std::ranges::none_of(
      workers_, [](const Worker& worker) { return worker.state == WorkerState::kStarting; });
  if (all_started) {
    out.emplace_back(news(WorkersState::kRunning));
  } else {
    report_at_ = now + policy_.quiet_start;
  }
}

void Supervisor::record_end(WorkerFailure end, Effects& out) {
  advance(end.local_rank, WorkerInput::kReaped, out);
  const bool may_end_so = end.end.ok() || (round_.has_saved && end.has_saved());
  if (!may_end_so) round_.failures.push_back(std::move(end));
}

/// Picks the culprit. A worker that lost a peer may be reaped before that peer, whose connections
/// close early in its end. So a worker that is ending is waited for, since it may be the cause, and
/// workers that still run are left alone, since the cause may be on another node.
void Supervisor::judge(const Event& event, TimePoint now, Effects& out) {
  if (round_.failures.empty()) {
    if (none_runs()) step(Input::kLastEnded, event, now, out);
    return;
  }
  put_culprit_first(round_.failures);
  const WorkerFailure& first = round_.failures.front();
  const auto* const ended = std::get_if<Ended>(&event);
  const bool others_end = ended != nullptr && ended->others_end;
  if (others_end && first.suspicion() != Suspicion::kCause) {
    if (!deadline_) deadline_ = now + policy_.dying_wait;
    return;
  }
  deadline_.reset();
  const bool is_news = std::exchange(round_.reported_culprit, first.local_rank) != first.local_rank;
  if (is_news) out.emplace_back(news(WorkersState::kFailed));
  // Until a StopRound says what happened elsewhere.
  const bool may_be_noticed = policy_.workers_get_notices && first.may_come_of_notice();
  const bool lost_peer = first.suspicion() == Suspicion::kLostPeer && !none_runs();
  if (!may_be_noticed && !lost_peer) step(Input::kStopRound, event, now, out);
}

void Supervisor::stop_workers(const StopRound& order, TimePoint now, Effects& out) {
  if (order.is_notice) {
    std::erase_if(round_.failures, [](const WorkerFailure& ended) { return ended.has_saved(); });
  }
  round_.has_saved = order.is_notice && round_.failures.empty();
  round_.stop_signal = order.signal;
  // A fifth is left for what follows: reporting the end, requeueing the job.
  if (order.killed_in) round_.killed_soon = now + *order.killed_in * 4 / 5;
  if (!order.is_notice) shorten_grace(now);
  if (order.is_notice && policy_.notice_grace) deadline_ = now + *policy_.notice_grace;
  report_at_ = now + policy_.quiet_grace;
  advance_all(WorkerInput::kStop, out);
}

/// The grace of a stop, for workers that had as long as they need until now. They end before Slurm
/// kills this process with them.
void Supervisor::shorten_grace(TimePoint now) {
  if (deadline_) return;
  deadline_ = now + policy_.grace;
  // If Slurm has not killed us by then, the signal was no preemption.
  const bool is_ahead = round_.killed_soon && *round_.killed_soon > now;
  if (is_ahead) deadline_ = std::min(*deadline_, *round_.killed_soon);
}

void Supervisor::check_saved(TimePoint now, Effects& out) {
  if (!round_.has_saved || round_.failures.empty()) return;
  round_.has_saved = false;
  shorten_grace(now);
  if (!none_runs()) out.emplace_back(news(WorkersState::kFailed));
}

/// A shell dies of the signal on which its child is still saving: such a child keeps the grace that
/// its worker had.
void Supervisor::sweep(std::optional<TimePoint> grace_ends, TimePoint now, Effects& out) {
  std::vector<int> signalled;
  for (const Worker& worker : workers_) {
    if (worker.stopped_by_us && worker.leaves_group) signalled.push_back(worker.pid);
  }
  const TimePoint soon = now + policy_.leftover_grace;
  if (signalled.empty()) {
    deadline_ = soon;
  } else {
    deadline_ = grace_ends;
    shorten_grace(now);
    deadline_ = std::max(deadline_.value_or(soon), soon);
    report_at_ = now + policy_.quiet_grace;
  }
  out.emplace_back(Sweep{.signal = SIGTERM, .signalled_groups = std::move(signalled)});
}

void Supervisor::report_wait(TimePoint now, Effects& out) {
  report_at_.reset();
  if (phase_ == Phase::kRunning) {
    // The others wait for the first.
    const std::vector<int> starting = ranks_in({WorkerState::kStarting});
    const bool is_slow = round_.failures.empty() && !starting.empty();
    if (is_slow) out.emplace_back(SlowSpawn{.local_rank = starting.front()});
    return;
  }
  std::optional<Duration> kill_in;
  if (deadline_) kill_in = *deadline_ - now;
  auto ranks = ranks_in({WorkerState::kStopping, WorkerState::kStopOnStart});
  out.emplace_back(Waits{.local_ranks = std::move(ranks), .kill_in = kill_in});
}

void Supervisor::advance(int local_rank, WorkerInput input, Effects& out) {
  Worker& one = worker(local_rank);
  const WorkerStep found = ddprun::step(one.state, input);
  one.state = found.next;
  switch (found.action) {
    case WorkerAction::kNothing:
      return;
    case WorkerAction::kSpawn:
      out.emplace_back(Spawn{.local_rank = local_rank});
      return;
    case WorkerAction::kCancelSpawn:
      out.emplace_back(CancelSpawn{.local_rank = local_rank});
      return;
    case WorkerAction::kSendStop:
      one.stopped_by_us = true;
      out.emplace_back(Send{.local_rank = local_rank, .signal = round_.stop_signal});
      return;
    case WorkerAction::kSendKill:
      one.stopped_by_us = true;
      out.emplace_back(Send{.local_rank = local_rank, .signal = SIGKILL});
      return;
    case WorkerAction::kBug:
      DDPRUN_CHECK(false && "the worker table has no such step");
  }
}

void Supervisor::advance_all(WorkerInput input, Effects& out) {
  for (int rank = 0; rank < policy_.workers; ++rank) {
    advance(rank, input, out);
  }
}

bool Supervisor::none_runs() const {
  return std::ranges::all_of(workers_, [](const Worker& worker) {
    return worker.state == WorkerState::kIdle || worker.state == WorkerState::kExited;
  });
}

std::vector<int> Supervisor::ranks_in(std::initializer_list<WorkerState> states) const {
  std::vector<int> ranks;
  for (int rank = 0; rank < policy_.workers; ++rank) {
    const WorkerState state = workers_[static_cast<std::size_t>(rank)].state;
    if (std::ranges::find(states, state) != states.end()) ranks.push_back(rank);
  }
  return ranks;
}

Supervisor::News Supervisor::news(WorkersState state) const {
  const auto& failures = round_.failures;
  const Duration ran_for = failures.empty() ? Duration() : failures.front().at - round_.began;
  const bool all_started =
      std::ranges::none_of(workers_, [](const Worker& worker) { return worker.pid == 0; });
  return {
      .state = state,
      .failures = failures,
      .ran_for = ran_for,
      .has_saved = round_.has_saved && all_started};
}

}  // namespace ddprun
