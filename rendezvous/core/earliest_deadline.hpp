#pragma once

#include "base/time.hpp"

#include <algorithm>

namespace ddprun {

/// The earliest of several deadlines, without those that had passed at the last event: what was due
/// by then has been done, or waits for something else.
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
