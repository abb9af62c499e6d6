#include "agent/core/supervisor.hpp"

#include "base/check.hpp"
#include "base/exit_status.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <cstddef>
#include <utility>

namespace ddprun {
namespace {

std::string reason_of(const WorkerFailure& culprit) {
  if (!culprit.start_error.empty()) return culprit.start_error;
  return fmt::format(
      "local rank {} (pid {}) {}", culprit.local_rank, culprit.pid, culprit.end.to_string());
}

}  // namespace

Supervisor::Supervisor(SupervisorPolicy policy)
    : policy_(policy),
      budget_(policy.max_restarts, policy.restart_window),
      workers_(static_cast<std::size_t>(policy.workers)) {
  DDPRUN_CHECK(policy.workers >= 1);
}

void Supervisor::apply(const Event& event, TimePoint now, Effects& out) {
  std::visit([&](const auto& what) { on(what, now, out); }, event);
}

void Supervisor::on(const Begin& /*event*/, TimePoint now, Effects& out) {
  // A signal may have come before we began; then nothing is ever started.
  if (phase_ != Phase::kIdle) return;
  start_attempt("", now, out);
}

void Supervisor::start_attempt(std::string reason, TimePoint now, Effects& out) {
  phase_ = Phase::kRunning;
  attempt_began_ = now;
  failures_.clear();
  restart_due_ = false;
  exit_status_ = kExitOk;
  killing_ = false;
  deadline_.reset();
  for (auto& worker : workers_) {
    worker = Worker{};
  }
  out.emplace_back(StartAttempt{.attempt = attempt_, .reason = std::move(reason)});
  advance(0, WorkerInput::kStart, out);
}

void Supervisor::on(const Spawned& event, TimePoint /*now*/, Effects& out) {
  workers_[static_cast<std::size_t>(event.local_rank)].pid = event.pid;
  const int next = event.local_rank + 1;
  // One at a time: after one that cannot be started the others are not tried.
  if (phase_ == Phase::kRunning && next < policy_.workers) advance(next, WorkerInput::kStart, out);
}

void Supervisor::on(const SpawnFailed& event, TimePoint now, Effects& out) {
  can_be_retried_ = event.can_be_retried;
  worker_ended(
      WorkerFailure{
          .local_rank = event.local_rank,
          .pid = 0,
          .end = ProcessEnd{.code = event.exit_status, .signal = 0},
          .at = now,
          .stopped_by_us = false,
          .start_error = event.why},
      now,
      out);
}

void Supervisor::on(const Ended& event, TimePoint now, Effects& out) {
  Worker& worker = workers_[static_cast<std::size_t>(event.local_rank)];
  worker.leaves_group = event.leaves_group;
  worker_ended(
      WorkerFailure{
          .local_rank = event.local_rank,
          .pid = worker.pid,
          .end = event.end,
          .at = now,
          .stopped_by_us = worker.stopped_by_us,
          .start_error = ""},
      now,
      out);
}

void Supervisor::worker_ended(WorkerFailure failure, TimePoint now, Effects& out) {
  if (phase_ == Phase::kEnded) return;  // one we had given up on
  advance(failure.local_rank, WorkerInput::kReaped, out);
  const bool failed = !failure.end.ok();
  if (failed) failures_.push_back(std::move(failure));
  if (failed && phase_ == Phase::kRunning) return fail(now, out);
  if (none_running()) sweep(now, out);
}

void Supervisor::fail(TimePoint now, Effects& out) {
  const WorkerFailure& culprit = failures_.front();
  exit_status_ = culprit.end.exit_status();
  restart_due_ = can_be_retried_ && budget_.try_take(now - attempt_began_);
  stop_all(SIGTERM, now, out);
}

void Supervisor::stop_all(int signal, TimePoint now, Effects& out) {
  phase_ = Phase::kStopping;
  stop_signal_ = signal;
  deadline_ = now + policy_.grace;
  for (int rank = 0; rank < policy_.workers; ++rank) {
    advance(rank, WorkerInput::kStop, out);
  }
  if (none_running()) sweep(now, out);
}

void Supervisor::kill_all(TimePoint now, Effects& out) {
  killing_ = true;
  deadline_ = now + policy_.unkillable_after;
  if (phase_ == Phase::kSweeping) {
    out.emplace_back(Sweep{.signal = SIGKILL, .told_groups = {}});
    return;
  }
  for (int rank = 0; rank < policy_.workers; ++rank) {
    advance(rank, WorkerInput::kGraceOver, out);
  }
}

void Supervisor::sweep(TimePoint now, Effects& out) {
  phase_ = Phase::kSweeping;
  if (killing_) {  // who was told to hurry does not get a second grace
    deadline_ = now + policy_.unkillable_after;
    out.emplace_back(Sweep{.signal = SIGKILL, .told_groups = {}});
    return;
  }
  // A shell dies of the signal that its child still works on, to save what it did: such a child
  // keeps the grace that its worker had.
  std::vector<int> told;
  for (const Worker& worker : workers_) {
    if (worker.stopped_by_us && worker.leaves_group) told.push_back(worker.pid);
  }
  const TimePoint soon = now + policy_.leftover_grace;
  deadline_ = told.empty() || !deadline_ ? soon : std::max(*deadline_, soon);
  out.emplace_back(Sweep{.signal = SIGTERM, .told_groups = std::move(told)});
}

void Supervisor::on(const Alone& /*event*/, TimePoint now, Effects& out) {
  if (phase_ != Phase::kSweeping) return;
  deadline_.reset();
  if (!failures_.empty()) report(out);
  if (!restart_due_) return finish(out);
  if (failures_.front().start_error.empty()) return restart(now, out);
  // Whatever the operating system lacked, it will not have it in the next microsecond.
  phase_ = Phase::kPausing;
  deadline_ = now + policy_.start_pause;
}

void Supervisor::finish(Effects& out) {
  phase_ = Phase::kEnded;
  deadline_.reset();
  out.emplace_back(Finish{.exit_status = exit_status_});
}

void Supervisor::restart(TimePoint now, Effects& out) {
  ++attempt_;
  start_attempt(reason_of(failures_.front()), now, out);
}

void Supervisor::on(const Signalled& event, TimePoint now, Effects& out) {
  if (phase_ == Phase::kEnded || is_again(event.signal, now)) return;
  const bool first = told_to_stop_by_ == 0;
  told_to_stop_at_ = now;
  if (!first) {
    if (!killing_) kill_all(now, out);
    return;
  }
  told_to_stop_by_ = event.signal;
  // A verdict reached before the signal stays: it only is not followed by another attempt.
  const bool verdict = phase_ == Phase::kStopping || phase_ == Phase::kSweeping;
  if (!verdict || restart_due_) exit_status_ = exit_status_of_signal(event.signal);
  restart_due_ = false;
  if (phase_ == Phase::kIdle || phase_ == Phase::kRunning) stop_all(event.signal, now, out);
  if (phase_ == Phase::kPausing) finish(out);
}

bool Supervisor::is_again(int signal, TimePoint now) const {
  return signal == told_to_stop_by_ && now - told_to_stop_at_ < policy_.same_signal_within;
}

void Supervisor::on(const Tick& /*event*/, TimePoint now, Effects& out) {
  if (!deadline_ || now < *deadline_) return;
  if (phase_ == Phase::kPausing) return restart(now, out);
  if (killing_) return give_up(out);
  kill_all(now, out);
}

void Supervisor::give_up(Effects& out) {
  GiveUp unkillable;
  for (int rank = 0; rank < policy_.workers; ++rank) {
    const auto state = workers_[static_cast<std::size_t>(rank)].state;
    if (state == WorkerState::kKilling) unkillable.local_ranks.push_back(rank);
  }
  restart_due_ = false;  // R2: this node gets no worker while an old one may come back to life
  if (!failures_.empty()) report(out);
  out.emplace_back(std::move(unkillable));
  finish(out);
}

void Supervisor::report(Effects& out) const {
  out.emplace_back(Report{
      .report = {
          .attempt = attempt_,
          .failures = failures_,
          .ran_for = failures_.front().at - attempt_began_,
          .restarts = restart_due_,
          .restarts_used = budget_.used(),
          .restarts_max = budget_.max(),
          .can_be_retried = can_be_retried_,
          .exit_status = exit_status_,
          .stopped_by = told_to_stop_by_}});
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
