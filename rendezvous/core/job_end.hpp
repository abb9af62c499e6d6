#pragma once

// JobEnd: how the job ends, and who knows.
//
//   a preemption notice   the job is to end once its workers have saved; the exit status is known
//                         when they have ended
//   the verdict           decided, and sent to all
//   final                 a majority has heard it, so no later leader decides otherwise
//   done                  this node leaves as well: it goes last
//
// A node that was told to stop while the job continues is dismissed by a verdict of its own.

#include "base/time.hpp"
#include "rendezvous/core/effects.hpp"
#include "rendezvous/core/leader_context.hpp"
#include "rendezvous/core/leader_lease.hpp"
#include "rendezvous/core/messages.hpp"
#include "rendezvous/core/roster.hpp"
#include "rendezvous/core/round.hpp"

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <utility>

namespace ddprun {

class JobEnd {
 public:
  using Node = Roster::Node;

  /// `context`, `roster` and `lease` outlive it. `verdict`: of an earlier leader.
  JobEnd(
      const LeaderContext& context,
      const Roster& roster,
      const LeaderLease& lease,
      std::optional<Verdict> verdict)
      : context_(context), roster_(roster), lease_(lease), verdict_(std::move(verdict)) {}

  const std::optional<Verdict>& verdict() const { return verdict_; }
  bool is_final() const { return stage_ != Stage::kNotFinal; }
  /// It is decided, or will be once the workers have saved.
  bool is_ending() const { return verdict_ || notice_; }

  /// The job ends so. REQUIRES: verdict() is not known.
  void decide(Verdict verdict, Effects& out);

  // A preemption notice.

  /// The job is to end with `verdict`, unless all workers save. REQUIRES: is_ending() is false.
  void notice(Verdict verdict) { notice_ = std::move(verdict); }
  /// Not all workers have saved, because of `why`. Yields an order for those that may wait for the
  /// missing one: they get no more than the grace. None: they have it already.
  std::optional<StopRound> shorten_grace(const std::string& why, const Round& round);
  /// A person has sent the signal twice. Yields the order for those that still run.
  std::optional<StopRound> kill(const std::string& host, const Round& round) const;
  /// The verdict, now that all workers of the round have ended; none: there was no notice, or the
  /// verdict is known.
  std::optional<Verdict> verdict_after_notice(const Round& round) const;

  // Who has heard it.

  /// A node joins; `is_new`: for the first time under this leader.
  void joined(const Node& node, bool is_new, TimePoint now, Effects& out);
  void heard(Incarnation node);
  /// A node was told to stop; `again`: and has reported it before.
  void leaves(Incarnation node, bool again);
  /// Lets those go that were told to stop and whose workers have ended.
  void dismiss_leavers(RoundPhase phase, Effects& out);
  /// Sends the verdict to all once a majority has heard it, then to this node once all have.
  void spread(RoundPhase phase, TimePoint now, Effects& out);

  // The last output of the worker that ended the job.

  /// It comes from `node`.
  void await_text(Incarnation node) { text_of_ = node; }
  void text_came() { text_of_.reset(); }
  /// All workers have ended.
  void round_ended(TimePoint now);

  /// The first one after `after`; kNever: there is none.
  TimePoint next_deadline(TimePoint after) const;

 private:
  enum class Stage : std::uint8_t { kNotFinal, kFinal, kDone };

  bool has_heard(Incarnation node) const;
  bool is_awaiting_text(TimePoint now) const;
  bool may_be_searched_for(TimePoint now) const;
  void report_searching(TimePoint now, Effects& out);

  const LeaderContext& context_;
  const Roster& roster_;
  const LeaderLease& lease_;
  std::optional<Verdict> notice_;  // what the job ends with unless all workers save
  std::optional<Verdict> verdict_;
  std::set<Incarnation> heard_;  // those that know the verdict, or were dismissed
  bool has_leavers_ = false;
  Stage stage_ = Stage::kNotFinal;
  TimePoint final_at_;  // the others have verdict_timeout from then on to hear it
  bool has_reported_searching_ = false;
  std::optional<Incarnation> text_of_;  // its last output is awaited
  TimePoint text_until_ = kNever;
};

}  // namespace ddprun
