#pragma once

// How a round ends, as far as one node knows it, and what follows from that: for a person, for the
// next attempt, and for the node itself.

#include "agent/core/failure_report.hpp"
#include "agent/core/supervisor.hpp"
#include "rendezvous/core/messages.hpp"

#include <optional>
#include <set>

namespace ddprun {

struct RoundEnd {
  std::optional<FailureNews> failure;  // of a worker of this node: the most likely culprit
  std::optional<FailureNews> unsaved;  // the same after a notice, when it is no failure of the job
  std::optional<StopRound> order;      // that ended the round
  int stopped_by = 0;                  // the first signal that came to end the job; 0: none
  std::set<int> hung;                  // local ranks of the workers that we have ended for it

  /// Forgets all but the signal.
  void begin_round();

  /// Takes the order. Yields whether it says anything new: it is the first, or names a culprit.
  bool add_order(const StopRound& stop);

  bool is_after_notice() const { return order && order->notice != 0; }

  /// The round ends because of what failed here, as far as is known.
  bool began_here() const;

  /// This node may be why the round fails, and may run workers again: worth a node check.
  bool may_be_nodes_fault() const;

  /// The culprit of `news` exited so soon after its start that the next attempt may end alike
  /// (CrashLoop).
  bool may_repeat(const Supervisor::News& news, int max_restarts) const;

  /// What follows. REQUIRES: order.
  Outcome outcome() const;

  /// What this node exits with if a process of `news` cannot be ended.
  int exit_status_if_given_up(const Supervisor::News& news) const;
};

}  // namespace ddprun
