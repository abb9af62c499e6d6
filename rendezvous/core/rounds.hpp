#pragma once

// Rounds: the present round and its phase (round.hpp has the table). Once the job ends, no round
// follows.

#include "base/time.hpp"
#include "rendezvous/core/candidate.hpp"
#include "rendezvous/core/effects.hpp"
#include "rendezvous/core/leader_context.hpp"
#include "rendezvous/core/leader_lease.hpp"
#include "rendezvous/core/messages.hpp"
#include "rendezvous/core/restarts.hpp"
#include "rendezvous/core/roster.hpp"
#include "rendezvous/core/round.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace ddprun {

struct Participant;  // rank_plan.hpp

class Rounds {
 public:
  using Node = Roster::Node;

  /// `context`, `roster` and `lease` outlive it.
  Rounds(
      const LeaderContext& context,
      Roster& roster,
      LeaderLease& lease,
      const ElectionResult& election_result);

  RoundPhase phase() const { return phase_; }
  /// The present or the last one.
  const Round& round() const { return round_; }
  const Progress& progress() const { return progress_; }
  /// A round of this instance was started, now or by an earlier leader.
  bool has_begun() const { return has_begun_; }
  /// The hosts of the present or the last round, also of an earlier leader.
  const std::vector<std::string>& hosts() const { return hosts_; }
  Restarts& restarts() { return restarts_; }
  const Restarts& restarts() const { return restarts_; }

  /// The next round may be offered, once enough nodes are there.
  bool is_gathering() const { return phase_ == RoundPhase::kGathering && !is_last_; }
  /// A round was started, and is not over.
  bool is_started() const {
    return phase_ == RoundPhase::kRunning || phase_ == RoundPhase::kStopping;
  }

  /// Does what the table of round.hpp says. `order`: for kStop and kVerdict.
  void apply(RoundEvent event, TimePoint now, Effects& out, StopRound order = {});
  void acknowledged(Incarnation node, const Acknowledge& acknowledge);
  /// The guard of kAcknowledged.
  bool may_start(TimePoint now) const;
  /// That node lost its connection, leaves, or is lost: it will not acknowledge, or its
  /// acknowledgement went with its connection.
  void member_gone(Incarnation node, TimePoint now, Effects& out);
  /// Stops the round without charging the budget: no worker failed, and another round follows.
  /// REQUIRES: a round runs.
  void restart_without_charge(std::string why, TimePoint now, Effects& out);
  /// The order to stop was lost with the connection that it was sent to `node` on.
  void repeat_order(const Node& node, Effects& out) const;

  /// That node reported its workers; `is_first`: for the first time on this connection. Yields
  /// whether the report changes what is known of the round that was started.
  bool reported(Node& node, bool is_first, TimePoint now, Effects& out);
  /// Nothing of that node runs any more. Yields whether it owed something to the round.
  bool lost(Incarnation node, TimePoint now, Effects& out);
  void store_reached() { round_.reached_store = true; }

  /// All workers have exited with 0, and no preemption notice explains it. REQUIRES: a round runs
  /// and has_succeeded().
  bool is_success(TimePoint now);
  /// Restarts for nodes that stand by, if the round has a place for them. REQUIRES: a round runs.
  void restart_for_newcomers(TimePoint now, Effects& out);
  /// A node of the round that misses several heartbeats: if its lease is over, its workers have
  /// been killed, and those of other nodes fail without them before its loss is known.
  std::optional<std::string> silent_host(TimePoint now) const;

  void welcome(const Node& node, Effects& out) const;

  /// The first one after `after`; kNever: there is none.
  TimePoint next_deadline(TimePoint after) const;

 private:
  std::vector<Participant> participants(TimePoint now) const;
  void offer(TimePoint now, Effects& out);
  void start(TimePoint now, Effects& out);
  void stop(StopRound order, Effects& out);
  void close();
  bool is_full_without(Incarnation node) const;
  std::vector<Successor> successors() const;
  void note_unfit(Node& node, TimePoint now, Effects& out);

  struct Timers {
    std::optional<TimePoint> newcomer_at;   // a node stands by since then
    std::optional<TimePoint> succeeded_at;  // all workers have exited with 0 since then
  };

  const LeaderContext& context_;
  Roster& roster_;
  LeaderLease& lease_;
  RoundPhase phase_ = RoundPhase::kGathering;
  Round round_;
  Timers timers_;  // of the round that runs
  std::vector<std::string> hosts_;
  std::int64_t last_number_ = 0;
  Progress progress_;
  Restarts restarts_;
  bool has_begun_ = false;
  bool is_last_ = false;  // the job ends
};

}  // namespace ddprun
