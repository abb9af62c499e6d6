#pragma once

// Gives a core one event at a time: events that arise while the effects of another one are
// performed wait their turn.

#include <deque>
#include <utility>

namespace ddprun {

template <class Event>
class EventQueue {
 public:
  /// Calls `apply(event)`, then the same for what was added meanwhile. Called from inside `apply`,
  /// it only adds the event, and yields false.
  template <class Apply>
  bool run(Event event, const Apply& apply) {
    if (is_running_) {
      waiting_.push_back(std::move(event));
      return false;
    }
    is_running_ = true;
    apply(event);
    while (!waiting_.empty()) {
      const Event next = std::move(waiting_.front());
      waiting_.pop_front();
      apply(next);
    }
    is_running_ = false;
    return true;
  }

  /// The next one, before those that wait. REQUIRES: called from inside `apply`.
  void put_first(Event event) { waiting_.push_front(std::move(event)); }

 private:
  std::deque<Event> waiting_;
  bool is_running_ = false;
};

}  // namespace ddprun
