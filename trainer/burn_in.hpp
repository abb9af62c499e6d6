#pragma once

#include "base/time.hpp"
#include "trainer/core/burn_in.hpp"
#include "trainer/process_group.hpp"

#include <cstdint>

namespace ddprun {

/// Decides when a burn-in ends, and prints its progress. It begins with construction, and all ranks
/// end it after the same step: rank 0's clock decides.
class BurnIn {
 public:
  /// `hours` > 0.
  BurnIn(double hours, ProcessGroup group);

  /// Whether the burn-in ends after `iteration`, from 1, which all ranks have done. Collective:
  /// rank 0 sends a number to all, and every hundredth time all ranks wait for each other.
  bool is_over(std::int64_t iteration);

  /// Prints rank 0's progress if `moment.iteration` has a line; fills in elapsed_s and remaining_s.
  /// Does nothing on other ranks.
  void record(BurnInMoment moment) const;

  /// >= 0, by this rank's clock.
  double remaining_s() const;

 private:
  TimePoint began_ = Clock::now();
  TimePoint end_;
  ProcessGroup group_;
};

}  // namespace ddprun
