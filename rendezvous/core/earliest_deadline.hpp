#pragma once

#include "base/time.hpp"

#include <algorithm>

namespace ddprun {

/// The earliest of several deadlines that is later than the last event. A deadline that had passed
/// by then needs no timer: its effect took place, or waits for an event.
class EarliestDeadline {
 public:
  explicit EarliestDeadline(TimePoint last_event) : last_event_(last_event) {}

  void add(TimePoint at) {
    if (at > last_event_) earliest_ = std::min(earliest_, at);
  }

  /// kNever: there is none.
  TimePoint at() const { return earliest_; }

 private:
  TimePoint last_event_;
  TimePoint earliest_ = kNever;
};

}  // namespace ddprun
