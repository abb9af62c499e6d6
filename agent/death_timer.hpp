#pragma once

// A kernel timer that enforces the lease: it kills this process at a given time even if both this
// process and its guard are stopped. The workers die with it (PR_SET_PDEATHSIG). So a node whose
// processes are all stopped runs no workers any more when the others continue without it (R2, R8).

#include "base/time.hpp"

#include <optional>

#include <time.h>

namespace ddprun {

class DeathTimer {
 public:
  /// For this process only, not its children. Logs a warning if the kernel refuses the timer.
  DeathTimer();
  DeathTimer(const DeathTimer&) = delete;
  DeathTimer& operator=(const DeathTimer&) = delete;
  ~DeathTimer();

  /// kNever: disarms the timer.
  void set(TimePoint when);

 private:
  std::optional<timer_t> timer_;
};

}  // namespace ddprun
