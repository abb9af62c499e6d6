#pragma once

#include "base/time.hpp"
#include "trainer/core/progress_text.hpp"

namespace ddprun {

/// One line on a terminal that shows how far the epoch is; where stderr is no terminal it shows
/// nothing, so that logs hold no control characters (T32).
class ProgressBar {
 public:
  /// `wanted` is false on all ranks but 0.
  ProgressBar(bool wanted, BarStyle style);

  /// Redraws, at most ten times a second, and at the epoch's last step.
  void show(const BarState& state);

  /// Clears the line, so that something else can be printed.
  void clear();

 private:
  bool visible_;
  bool drawn_ = false;
  BarStyle style_;
  TimePoint next_;
};

}  // namespace ddprun
