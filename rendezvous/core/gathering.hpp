#pragma once

// Gathering: when the next round may be offered, and what it waits for until then. The waits, in
// this order; each ends by an event or by its own deadline:
//
//   nodes of another instance, which may start a round there              hold_for()
//   the nodes that were to run an earlier leader's newest round           Regroup
//   survivors after a start or a suspension; the pause before a restart   not_before_
//   all workers of earlier rounds, under their leases (R2)                LostNodes, WorkerNews
//   MIN nodes; else the job ends                                          timeout()
//   lifelines that are on their way                                       Roster
//   the expected nodes of a Slurm step, before the first round            expected_wait
//   more nodes, before the first round; nodes that may call again         last call

#include "base/time.hpp"
#include "rendezvous/core/candidate.hpp"
#include "rendezvous/core/effects.hpp"
#include "rendezvous/core/leader_context.hpp"
#include "rendezvous/core/leader_lease.hpp"
#include "rendezvous/core/messages.hpp"
#include "rendezvous/core/roster.hpp"
#include "rendezvous/core/rounds.hpp"

#include <map>
#include <optional>
#include <set>
#include <string>

namespace ddprun {

struct GatheringFacts;  // gathering_text.hpp

class Gathering {
 public:
  /// What follows now; neither: it waits.
  struct Step {
    bool offers = false;
    std::optional<Verdict> verdict = std::nullopt;  // too few nodes came
  };

  /// `context`, `roster` and `rounds` outlive it.
  Gathering(
      const LeaderContext& context,
      const Roster& roster,
      const Rounds& rounds,
      const ElectionResult& election_result,
      TimePoint now);

  /// A round is over: the next one is gathered.
  void begin(TimePoint now);
  /// A node has joined; `is_new`: for the first time under this leader.
  void joined(const Hello& hello, bool is_new);
  void pause_until(TimePoint at) { not_before_ = at; }
  bool is_pausing(TimePoint now) const { return now < not_before_; }

  /// A node knows another instance of this job, of which it has seen no round start. Its bootstrap
  /// leader may yet start one: no round of ours, until that node joins or surely has given it up.
  void hold_for(const NodeInfo& node, TimePoint now);
  /// It has given that instance up.
  void hold_no_more_for(const NodeInfo& node);

  /// The job has not begun here, and may begin on other nodes: a suspension matters.
  bool may_begin_elsewhere() const;
  /// An event comes. If it is much later than the deadline that was set, this node was suspended.
  void wakes(TimePoint now);
  /// The leader's next deadline.
  void sleeps_until(TimePoint at) { wakes_by_ = at; }

  /// What follows from where things stand. REQUIRES: rounds.is_gathering().
  Step step(const LeaderLease& lease, TimePoint now, Effects& out);

  /// The first one after `after`; kNever: there is none.
  TimePoint next_deadline(TimePoint after) const;

 private:
  /// The nodes that were to run the newest round of an earlier leader: they may still run workers,
  /// or join.
  struct Regroup {
    RoundId round;
    std::set<Incarnation> heard;
    int unheard = 0;
    TimePoint until;
  };
  struct Turnout;

  Turnout turnout(TimePoint now) const;
  Step wait_for_min(int ready, const LeaderLease& lease, TimePoint now, Effects& out);
  Duration timeout() const;
  bool too_few_may_come(const LeaderLease& lease, TimePoint now) const;
  void report_waiting(int ready, TimePoint now, Effects& out);
  TimePoint reports_last_call_at() const;
  void report_last_call(int ready, TimePoint now, Effects& out);
  GatheringFacts facts(int ready) const;
  std::string missing_hosts() const;

  const LeaderContext& context_;
  const Roster& roster_;
  const Rounds& rounds_;
  TimePoint since_;
  bool has_reported_waiting_ = false;  // since then
  TimePoint not_before_;
  TimePoint wakes_by_ = kNever;
  Regroup regroup_;
  std::optional<TimePoint> last_call_until_;
  bool has_reported_last_call_ = false;
  std::map<std::string, TimePoint> held_for_;  // by place_of()
  int known_nodes_ = 0;                        // nodes that ever came, as far as is known here
};

}  // namespace ddprun
