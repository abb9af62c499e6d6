#pragma once

// WorkerLease: what the workers of this node do, and how long they may (E3, R8). The lease runs
// from when the newest heartbeat with a reply was *sent*. When it ends, the workers are killed.

#include "base/time.hpp"
#include "rendezvous/core/effects.hpp"
#include "rendezvous/core/messages.hpp"
#include "rendezvous/core/policy.hpp"
#include "rendezvous/core/voter.hpp"

#include <optional>
#include <string>

namespace ddprun {

class WorkerLease {
 public:
  /// What it takes outlives it.
  WorkerLease(const RendezvousPolicy& policy, const Voter& voter);

  /// Some of the workers may still run.
  bool are_running() const { return is_under_way(news_.state); }
  /// As of the newest round of which the workers were started, or were to be.
  const WorkerNews& news() const { return news_; }
  /// The same, as a leader is told.
  WorkerNews report() const;
  /// A round was started once that ran workers here.
  bool took_part() const { return took_part_; }
  /// The result of the first node check. REQUIRES: no other node was told yet.
  void set_unfit(std::string why) { unfit_ = std::move(why); }

  /// Yields whether the news are of the newest round.
  bool hear(const WorkerNews& news);
  /// Starts the workers of that round, unless the lease has ended. Yields whether it did.
  bool start(const OfferRound& offer, const Place& place, TimePoint now, Effects& out);
  void stop(std::string why, Effects& out) const;
  /// Kills the workers once the lease has ended.
  void keep(TimePoint now, Effects& out);
  /// No end that is earlier than the present one counts.
  void extend(TimePoint until, Effects& out);
  /// While this node leads: may be earlier as well.
  void set(TimePoint until, Effects& out);
  /// The node has a new incarnation, which has no workers and no lease.
  void forget();

  /// Reports that the workers were killed, which was left to a next leader: there is none yet, or
  /// the leader was the same all the time.
  void report_kill(Effects& out);
  /// Another node leads, and reports it.
  void leave_kill_to_leader() { unreported_kill_.clear(); }

  TimePoint next_deadline(TimePoint last_event) const;

 private:
  std::string why_over(TimePoint now) const;

  const RendezvousPolicy& policy_;
  const Voter& voter_;
  WorkerNews news_;
  std::string unfit_;  // as of the newest check
  TimePoint until_;
  bool is_killed_ = false;  // for this round's lease
  std::string unreported_kill_;
  bool took_part_;
};

}  // namespace ddprun
