#include "agent/core/supervisor.hpp"

#include "base/check.hpp"

#include <algorithm>
#include <cstddef>
#include <utility>

namespace ddprun {

std::string WorkerFailure::how() const {
  if (!start_error.empty()) return start_error;
  // The cause is in another rank then, which may not have ended: it may hang, or be of another
  // node.
  const bool lost_peer = suspicion() == Suspicion::kLostPeer;
  return end.to_string() + (lost_peer ? " (as one does that lost another rank)" : "");
}

Supervisor::Supervisor(SupervisorPolicy policy)
    : policy_(policy), workers_(static_cast<std::size_t>(policy.workers)) {
  DDPRUN_CHECK(policy.workers >= 1);
}

void Supervisor::apply(const Event& event, TimePoint now, Effects& out) {
  std::visit([&](const auto& what) { on(what, now, out); }, event);
}

void Supervisor::on(const StartRound& /*event*/, TimePoint now, Effects& out) {
  DDPRUN_CHECK(phase_ == Phase::kIdle);  // R2
  failures_.clear();
  was_stopped_ = false;
  has_saved_ = false;
  if (!keeps_leftovers_) return begin_round(now, out);
  starts_when_alone_ = true;
  killing_ = true;
  out.emplace_back(Leftovers{.mode = LeftoverMode::kKill});
  sweep(now, out);
}

void Supervisor::begin_round(TimePoint now, Effects& out) {
  phase_ = Phase::kRunning;
  began_ = now;
  deadline_.reset();
  told_culprit_.reset();
  killing_ = false;
  stop_signal_ = 0;
  std::ranges::fill(workers_, Worker{});
  advance(0, WorkerInput::kStart, out);
}

void Supervisor::on(const Spawned& event, TimePoint /*now*/, Effects& out) {
  workers_[static_cast<std::size_t>(event.local_rank)].pid = event.pid;
  if (phase_ != Phase::kRunning) return;
  const int next = event.local_rank + 1;
  // One at a time: after one that cannot be started the others are not tried.
  if (next < policy_.workers) return advance(next, WorkerInput::kStart, out);
  out.emplace_back(news(WorkersState::kRunning));
}

void Supervisor::on(const SpawnFailed& event, TimePoint now, Effects& out) {
  worker_ended(
      WorkerFailure{
          .local_rank = event.local_rank,
          .pid = 0,
          .end = ProcessEnd{.code = event.exit_status, .signal = 0},
          .at = now,
          .stopped_by_us = false,
          .start_error = event.why,
          .can_be_retried = event.can_be_retried},
      false,
      now,
      out);
}

void Supervisor::on(const Ended& event, TimePoint now, Effects& out) {
  Worker& worker = workers_[static_cast<std::size_t>(event.local_rank)];
  worker.leaves_group = event.leaves_group;
  // Nobody else's signal: an out-of-memory kill, for one, may come while it is being stopped.
  const bool is_killed = event.end.signal == SIGKILL && worker.state == WorkerState::kKilling;
  const bool is_our_end = event.end.signal == 0 || event.end.signal == stop_signal_ || is_killed;
  worker_ended(
      WorkerFailure{
          .local_rank = event.local_rank,
          .pid = worker.pid,
          .end = event.end,
          .at = now,
          .stopped_by_us = worker.stopped_by_us && is_our_end,
          .start_error = ""},
      event.others_end,
      now,
      out);
}

void Supervisor::worker_ended(WorkerFailure failure, bool others_end, TimePoint now, Effects& out) {
  if (phase_ == Phase::kGivenUp) return;
  advance(failure.local_rank, WorkerInput::kReaped, out);
  const bool failed = !failure.end.ok();
  const bool saved = failure.has_saved();
  if (failed && !(saved && has_saved_)) failures_.push_back(std::move(failure));
  if (phase_ == Phase::kRunning && !failures_.empty()) {
    return consider_failures(others_end, now, out);
  }
  if (!saved && std::exchange(has_saved_, false)) {
    shorten_grace(now);
    if (!none_running()) out.emplace_back(news(WorkersState::kFailed));
  }
  if (none_running()) sweep(now, out);
}

/// Who lost a peer may have ended, and be reaped, before that peer: its connections are closed
/// early in its end. So those that are ending are waited for while they may be the cause, and those
/// that run on are left alone, since one of another node may be.
void Supervisor::consider_failures(bool others_end, TimePoint now, Effects& out) {
  const auto culprit = std::ranges::min_element(failures_, {}, &WorkerFailure::suspicion);
  std::rotate(failures_.begin(), culprit, culprit + 1);
  const WorkerFailure& first = failures_.front();
  if (others_end && first.suspicion() != Suspicion::kCause) {
    if (!deadline_) deadline_ = now + policy_.dying_wait;
    return;
  }
  deadline_.reset();
  const bool is_news = std::exchange(told_culprit_, first.local_rank) != first.local_rank;
  if (is_news) out.emplace_back(news(WorkersState::kFailed));
  // Until a StopRound comes, which tells what became of it elsewhere.
  const bool may_be_noticed = policy_.workers_get_notices && first.may_come_of_notice();
  const bool lost_peer = first.suspicion() == Suspicion::kLostPeer && !none_running();
  if (!may_be_noticed && !lost_peer) stop_all(StopRound{}, now, out);
}

void Supervisor::on(const StopRound& event, TimePoint now, Effects& out) {
  if (phase_ == Phase::kRunning) return stop_all(event, now, out);
  if (starts_when_alone_) was_stopped_ = true;
  end_leftovers(now, out);
  if (!event.is_notice) shorten_grace(now);
}

void Supervisor::stop_all(const StopRound& stop, TimePoint now, Effects& out) {
  phase_ = Phase::kStopping;
  was_stopped_ = true;
  if (stop.is_notice) {
    std::erase_if(failures_, [](const WorkerFailure& ended) { return ended.has_saved(); });
  }
  has_saved_ = stop.is_notice && failures_.empty();
  stop_signal_ = stop.signal;
  deadline_.reset();
  // A fifth of it is left for what comes behind: word of the end, a request to start again.
  grace_ends_.reset();
  if (stop.killed_in) grace_ends_ = now + *stop.killed_in * 4 / 5;
  if (!stop.is_notice) shorten_grace(now);
  if (stop.is_notice && policy_.notice_grace) deadline_ = now + *policy_.notice_grace;
  report_at_ = now + policy_.quiet_grace;
  for (int rank = 0; rank < policy_.workers; ++rank) {
    advance(rank, WorkerInput::kStop, out);
  }
  if (none_running()) sweep(now, out);
}

/// Those who are left after a notice, and had as long as they need, have no more than the grace,
/// and end before Slurm kills this process with them.
void Supervisor::shorten_grace(TimePoint now) {
  const bool ends = phase_ == Phase::kStopping || phase_ == Phase::kSweeping;
  if (!ends || deadline_) return;
  deadline_ = now + policy_.grace;
  // One that is over was none: a preemption leaves more.
  const bool is_ahead = grace_ends_ && *grace_ends_ > now;
  if (is_ahead) deadline_ = std::min(*deadline_, *grace_ends_);
}

void Supervisor::on(const Kill& /*event*/, TimePoint now, Effects& out) {
  const bool may_run = phase_ != Phase::kIdle && phase_ != Phase::kGivenUp;
  if (starts_when_alone_) was_stopped_ = true;
  if (may_run && !killing_) kill_all(now, out);
}

void Supervisor::kill_all(TimePoint now, Effects& out) {
  killing_ = true;
  report_at_.reset();
  deadline_ = now + policy_.unkillable_after;
  if (phase_ == Phase::kSweeping) {
    leftover_stage_ = LeftoverStage::kTold;
    out.emplace_back(Sweep{.signal = SIGKILL, .told_groups = {}});
    return;
  }
  phase_ = Phase::kStopping;
  was_stopped_ = true;
  for (int rank = 0; rank < policy_.workers; ++rank) {
    advance(rank, WorkerInput::kKill, out);
  }
}

void Supervisor::sweep(TimePoint now, Effects& out) {
  phase_ = Phase::kSweeping;
  leftover_stage_ = LeftoverStage::kTold;
  report_at_.reset();
  if (killing_) {  // who was told to hurry does not get a second grace
    deadline_ = now + policy_.unkillable_after;
    out.emplace_back(Sweep{.signal = SIGKILL, .told_groups = {}});
    return;
  }
  if (has_succeeded()) {
    leftover_stage_ = LeftoverStage::kSettling;
    deadline_ = now + policy_.leftover_settle;
    out.emplace_back(Sweep{.signal = 0, .told_groups = {}});
    return;
  }
  // A shell dies of the signal that its child still works on, to save what it did: such a child
  // keeps the grace that its worker had.
  std::vector<int> told;
  for (const Worker& worker : workers_) {
    if (worker.stopped_by_us && worker.leaves_group) told.push_back(worker.pid);
  }
  const TimePoint soon = now + policy_.leftover_grace;
  if (told.empty()) {
    deadline_.reset();
  } else {
    shorten_grace(now);
    report_at_ = now + policy_.quiet_grace;
  }
  deadline_ = std::max(deadline_.value_or(soon), soon);
  out.emplace_back(Sweep{.signal = SIGTERM, .told_groups = std::move(told)});
}

void Supervisor::quiet_period_is_over(TimePoint now, Effects& out) {
  switch (policy_.leftovers.mode) {
    case LeftoverMode::kKill:
      return end_leftovers(now, out);
    case LeftoverMode::kWait:
      leftover_stage_ = LeftoverStage::kWaitedFor;
      deadline_ = now + policy_.leftovers.limit;
      out.emplace_back(Leftovers{.mode = LeftoverMode::kWait});
      return;
    case LeftoverMode::kKeep:
      phase_ = Phase::kIdle;
      deadline_.reset();
      keeps_leftovers_ = true;
      out.emplace_back(Leftovers{.mode = LeftoverMode::kKeep});
      out.emplace_back(news(WorkersState::kSucceeded));
  }
}

void Supervisor::end_leftovers(TimePoint now, Effects& out) {
  if (phase_ != Phase::kSweeping || leftover_stage_ == LeftoverStage::kTold) return;
  leftover_stage_ = LeftoverStage::kTold;
  deadline_ = now + policy_.leftover_grace;
  out.emplace_back(Leftovers{.mode = LeftoverMode::kKill});
  out.emplace_back(Sweep{.signal = SIGTERM, .told_groups = {}});
}

void Supervisor::on(const Alone& /*event*/, TimePoint now, Effects& out) {
  keeps_leftovers_ = false;
  if (phase_ != Phase::kSweeping) return;
  const bool starts = std::exchange(starts_when_alone_, false) && !was_stopped_;
  if (starts) return begin_round(now, out);
  phase_ = Phase::kIdle;
  deadline_.reset();
  report_at_.reset();
  out.emplace_back(news(was_stopped_ ? WorkersState::kStopped : WorkersState::kSucceeded));
}

void Supervisor::on(const Signalled& event, TimePoint now, Effects& out) {
  const bool again =
      event.signal == told_to_stop_by_ && now - told_to_stop_at_ < policy_.same_signal_within;
  if (again) return;
  told_to_stop_at_ = now;
  end_leftovers(now, out);
  // The first one is answered from outside, by a StopRound if anything runs.
  const bool is_first = std::exchange(told_to_stop_by_, event.signal) == 0;
  if (is_first || event.is_repeated) return;
  is_told_twice_ = true;
  on(Kill{}, now, out);
}

void Supervisor::on(const Tick& /*event*/, TimePoint now, Effects& out) {
  const bool is_over = deadline_ && now >= *deadline_;
  if (!is_over && report_at_ && now >= *report_at_) report_wait(now, out);
  if (!is_over) return;
  if (phase_ == Phase::kRunning) return consider_failures(false, now, out);
  if (phase_ == Phase::kSweeping && leftover_stage_ == LeftoverStage::kSettling) {
    return quiet_period_is_over(now, out);
  }
  if (phase_ == Phase::kSweeping && leftover_stage_ == LeftoverStage::kWaitedFor) {
    return end_leftovers(now, out);
  }
  if (killing_) return give_up(out);
  kill_all(now, out);
}

void Supervisor::report_wait(TimePoint now, Effects& out) {
  report_at_.reset();
  std::optional<Duration> kill_in;
  if (deadline_) kill_in = *deadline_ - now;
  std::vector<int> waited_for;
  for (int rank = 0; rank < policy_.workers; ++rank) {
    const auto state = workers_[static_cast<std::size_t>(rank)].state;
    if (state == WorkerState::kStopping) waited_for.push_back(rank);
  }
  if (waited_for.empty()) {
    out.emplace_back(WaitsForChildren{.kill_in = kill_in});
  } else {
    out.emplace_back(WaitsForWorkers{.local_ranks = std::move(waited_for), .kill_in = kill_in});
  }
}

void Supervisor::give_up(Effects& out) {
  // R2: this node gets no worker while an old one may come back to life.
  phase_ = Phase::kGivenUp;
  deadline_.reset();
  GiveUp unkillable{.local_ranks = {}, .news = news(WorkersState::kStopped)};
  for (int rank = 0; rank < policy_.workers; ++rank) {
    const auto state = workers_[static_cast<std::size_t>(rank)].state;
    if (state == WorkerState::kKilling) unkillable.local_ranks.push_back(rank);
  }
  out.emplace_back(std::move(unkillable));
}

Supervisor::News Supervisor::news(WorkersState state) const {
  const Duration ran_for = failures_.empty() ? Duration() : failures_.front().at - began_;
  return {.state = state, .failures = failures_, .ran_for = ran_for, .has_saved = has_saved_};
}

void Supervisor::advance(int local_rank, WorkerInput input, Effects& out) {
  Worker& worker = workers_[static_cast<std::size_t>(local_rank)];
  const WorkerStep next = step(worker.state, input);
  worker.state = next.next;
  switch (next.deed) {
    case WorkerDeed::kNothing:
    case WorkerDeed::kReport:  // worker_ended() does
      return;
    case WorkerDeed::kSpawn:
      out.emplace_back(Spawn{.local_rank = local_rank});
      return;
    case WorkerDeed::kSendStop:
      worker.stopped_by_us = true;
      out.emplace_back(Send{.local_rank = local_rank, .signal = stop_signal_});
      return;
    case WorkerDeed::kSendKill:
      worker.stopped_by_us = true;
      out.emplace_back(Send{.local_rank = local_rank, .signal = SIGKILL});
      return;
    case WorkerDeed::kBug:
      DDPRUN_CHECK(false && "the worker table has no such step");
  }
}

bool Supervisor::none_running() const {
  const auto is_over = [this](const Worker& worker) {
    // In the running phase an idle worker is about to be started.
    if (worker.state == WorkerState::kIdle) return phase_ != Phase::kRunning;
    return worker.state == WorkerState::kExited;
  };
  return std::ranges::all_of(workers_, is_over);
}

}  // namespace ddprun
