#pragma once

// Restarts: what follows from the failure of a worker: a restart, perhaps after a pause, or the end
// of the job. It holds the failure that the present round ends by, and the budget.

#include "base/time.hpp"
#include "rendezvous/core/crash_loop.hpp"
#include "rendezvous/core/first_failure.hpp"
#include "rendezvous/core/messages.hpp"
#include "rendezvous/core/policy.hpp"
#include "rendezvous/core/restart_budget.hpp"

#include <algorithm>
#include <optional>
#include <utility>

namespace ddprun {

class Restarts {
 public:
  using Failure = FirstFailure::Failure;

  /// `policy` outlives it. `used`: restarts under earlier leaders.
  Restarts(const RendezvousPolicy& policy, int used)
      : policy_(policy),
        budget_(policy.max_restarts, policy.restart_window, std::min(policy.max_restarts, used)),
        failure_(policy.notice_delay) {}

  const RestartBudget& budget() const { return budget_; }

  /// A worker of the running round failed, or more is known about one that did.
  void failed(Failure failure, TimePoint now) { failure_.note(std::move(failure), now); }
  /// More is known about a failure by which the round has been stopped.
  void learned(const FailureNews& failure) { crashes_.learned(failure); }
  /// A failure is known, and what explains it is awaited.
  bool is_pending() const { return failure_.is_pending(); }
  /// The failure, once nothing more is awaited. `all_ended`: all workers of the round have.
  std::optional<Failure> take_due(TimePoint now, bool all_ended) {
    return failure_.take_due(now, all_ended, may_restart(), crashes_);
  }
  /// The failure, whatever is awaited.
  std::optional<Failure> take() { return failure_.take(); }
  /// The round is stopped for another reason.
  void clear() { failure_.clear(); }

  /// Charges the budget for that failure. Yields the order that ends its round, which ran for
  /// `ran_for`: with a restart, unless the job ends.
  StopRound charge(const Failure& first, Duration ran_for) {
    const FailureNews& culprit = first.culprit;
    crashes_.failed(culprit, first.ran_for, first.reached_store);
    StopRound order;
    order.culprit = culprit;
    order.crashes = crashes_.in_a_row();
    order.repeats = crashes_.repeats();
    const bool may_help = culprit.can_be_retried && !(order.repeats && policy_.needs_progress);
    order.restarts = may_help && budget_.try_take(ran_for);
    if (!order.restarts) return order;
    const Duration least = culprit.needs_pause ? policy_.start_pause : Duration();
    order.pause = std::max(crashes_.pause(), least);
    return order;
  }

  /// kNever: no failure is pending.
  TimePoint next_deadline() const { return failure_.deadline(may_restart(), crashes_); }

 private:
  bool may_restart() const { return budget_.used() < budget_.max(); }

  const RendezvousPolicy& policy_;
  RestartBudget budget_;
  CrashLoop crashes_;
  FirstFailure failure_;
};

}  // namespace ddprun
