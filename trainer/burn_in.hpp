#pragma once

#include "base/time.hpp"
#include "trainer/core/burn_in.hpp"
#include "trainer/process_group.hpp"

#include <cstdint>

namespace ddprun {

/// Says when a burn-in ends, and how it stands until then. It begins where this is made, and all
/// ranks end it behind the same step: rank 0's clock decides.
class BurnIn {
 public:
  /// `hours` > 0.
  BurnIn(double hours, ProcessGroup group);

  /// Whether the burn-in ends behind `iteration`, from 1, which all ranks have made. Collective: a
  /// number goes from rank 0 to all, and every hundredth time all wait for each other.
  bool is_over(std::int64_t iteration);

  /// Prints how rank 0 stands, if `moment.iteration` has a line; elapsed_s and remaining_s are
  /// filled in. On other ranks nothing.
  void tell(BurnInMoment moment) const;

  /// >= 0, by this rank's clock.
  double remaining_s() const;

 private:
  TimePoint began_ = Clock::now();
  TimePoint end_;
  ProcessGroup group_;
};

}  // namespace ddprun
