#pragma once

#include "base/time.hpp"

#include <cstdint>

namespace ddprun {

/// One line on a terminal that shows how far the epoch is; where stderr is no terminal it shows
/// nothing, so that logs hold no control characters.
class ProgressBar {
 public:
  /// `wanted` is false on all ranks but 0.
  explicit ProgressBar(bool wanted);

  /// Redraws, at most ten times a second.
  void show(std::int64_t epoch, std::int64_t done, std::int64_t steps, double loss);

  /// Clears the line, so that something else can be printed.
  void clear();

 private:
  bool visible_;
  bool drawn_ = false;
  TimePoint next_;
};

}  // namespace ddprun
