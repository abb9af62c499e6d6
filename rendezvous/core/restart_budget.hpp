#pragma once

#include "base/time.hpp"

#include <optional>

namespace ddprun {

/// How often the whole job may be restarted after a failure (`--max-restarts`), and when it
/// forgets (`--restart-window`). R5: never more than `max` restarts in a row, across failovers.
class RestartBudget {
 public:
  /// REQUIRES: max >= 0, 0 <= used <= max. Without a window nothing is ever forgotten.
  RestartBudget(int max, std::optional<Duration> window, int used = 0)
      : max_(max), window_(window), used_(used) {}

  /// Takes one restart if there is one left. `healthy_for` is how long the attempt that has just
  /// failed had been running: a window of health or more makes the budget whole again.
  bool try_take(Duration healthy_for) {
    if (window_ && healthy_for >= *window_) used_ = 0;
    if (used_ >= max_) return false;
    ++used_;
    return true;
  }

  int used() const { return used_; }
  int max() const { return max_; }

 private:
  int max_ = 0;
  std::optional<Duration> window_;
  int used_ = 0;  // 0 <= used_ <= max_
};

}  // namespace ddprun
