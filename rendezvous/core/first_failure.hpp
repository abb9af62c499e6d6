#pragma once

// FirstFailure: the failure that a round ends by, while something that explains it may still
// arrive: the death of a peer that the worker lost, the preemption notice that it saved and exited
// for, its last line of output.

#include "base/time.hpp"
#include "rendezvous/core/crash_loop.hpp"
#include "rendezvous/core/messages.hpp"

#include <optional>

namespace ddprun {

class FirstFailure {
 public:
  struct Failure {
    FailureNews culprit;
    Duration ran_for{};          // the round, until then
    bool reached_store = false;  // one of its workers had, until then
  };

  /// `notice_delay`: how much later than its workers a node may learn of a notice; 0: workers get
  /// none.
  explicit FirstFailure(Duration notice_delay) : notice_delay_(notice_delay) {}

  /// A worker of the round has failed, or more is known of one that did. The likeliest cause is
  /// kept.
  void note(Failure failure, TimePoint now);

  /// Whether there is one that was not taken yet.
  bool is_pending() const { return pending_.has_value(); }

  /// The failure, once nothing is waited for. `all_ended`: all workers of the round have, so no
  /// death is unknown. `may_restart`: its last line has a say in what follows.
  std::optional<Failure> take_due(
      TimePoint now, bool all_ended, bool may_restart, const CrashLoop& crashes);
  /// The failure, whatever is waited for.
  std::optional<Failure> take();
  void clear() { pending_.reset(); }

  /// When take_due() yields it at the latest; kNever: there is none.
  TimePoint deadline(bool may_restart, const CrashLoop& crashes) const;

 private:
  bool gets_notices() const { return notice_delay_ > Duration(); }
  static bool needs_last_line(const Failure& failure, bool may_restart, const CrashLoop& crashes);

  struct Pending {
    Failure failure;
    TimePoint until;       // a notice that is on its way, or another death, may explain it
    TimePoint line_until;  // its last line may come, if that has a say
  };

  Duration notice_delay_;
  std::optional<Pending> pending_;
};

}  // namespace ddprun
