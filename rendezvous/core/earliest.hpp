#pragma once

#include "base/time.hpp"

#include <algorithm>

namespace ddprun {

/// The earliest of several deadlines that is later than `after`, the time of the last event. A
/// deadline that had passed by then needs no timer: its effect took place, or waits for an event.
class Earliest {
 public:
  explicit Earliest(TimePoint after) : after_(after) {}

  void add(TimePoint at) {
    if (at > after_) at_ = std::min(at_, at);
  }
  /// kNever: there is none.
  TimePoint at() const { return at_; }

 private:
  TimePoint after_;
  TimePoint at_ = kNever;
};

}  // namespace ddprun
