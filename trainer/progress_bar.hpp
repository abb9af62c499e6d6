#pragma once

#include "base/time.hpp"
#include "trainer/core/progress_text.hpp"

namespace ddprun {

/// One line on a terminal that shows the progress of the epoch. Shows nothing if stderr is not a
/// terminal, so that logs contain no control characters (T32).
class ProgressBar {
 public:
  /// `wanted` is false on all ranks except 0.
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
