#pragma once

// SecondConnection: another connection to the leader, made while the first one is silent. TCP would
// send what was lost again only after as long as it had already waited. If the leader answers on
// the second connection, that one replaces the first.

#include "base/time.hpp"
#include "rendezvous/core/effects.hpp"
#include "rendezvous/core/link.hpp"
#include "rendezvous/core/voter.hpp"

#include <optional>

namespace ddprun {

class SecondConnection {
 public:
  /// A call whose hello was sent at `greeted_at`.
  struct Call {
    std::optional<Link> link;  // none: refused
    std::optional<TimePoint> greeted_at;
    TimePoint until;  // it is dropped then, and another call is made
  };

  /// `voter` outlives it.
  explicit SecondConnection(const Voter& voter) : voter_(voter) {}

  bool is_on(Link link) const { return call_ && call_->link == link; }
  /// The leader may answer on it.
  bool is_greeted() const { return call_ && call_->link && call_->greeted_at; }

  /// Drops a call that was not answered in time. Yields whether another one is due: the leader has
  /// been silent on the first connection since `silent_at`.
  bool is_due(TimePoint silent_at, TimePoint now, Effects& out);
  /// REQUIRES: is_due().
  void call(Link link, TimePoint now, Effects& out);
  /// The call was taken.
  void greet(TimePoint now, Effects& out);
  /// It was refused, or has ended.
  void closed() {
    if (call_) call_->link.reset();
  }
  /// The leader was heard, on the connection that this node has now.
  void heard_on_first(Effects& out);
  void drop(Effects& out);
  /// Gives the connection away: it replaces the first. REQUIRES: there is a call.
  Call take();

  /// `silent_at` as above.
  TimePoint next_deadline(TimePoint silent_at) const { return call_ ? call_->until : silent_at; }

 private:
  Duration patience() const;

  const Voter& voter_;
  std::optional<Call> call_;
  int greeted_in_vain_ = 0;  // calls, since the leader was last heard
};

}  // namespace ddprun
