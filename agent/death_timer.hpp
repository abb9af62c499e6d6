#pragma once

// The kernel's own hand on the lease: ends this process at a given time even if it is stopped, and
// the one that guards it, too. Its workers die with it (PR_SET_PDEATHSIG). So a node of which
// everything is frozen runs nothing any more when the others go on without it (R2, R8).

#include "base/time.hpp"

#include <optional>

#include <time.h>

namespace ddprun {

class DeathTimer {
 public:
  /// Of this process; a child has none. Says on the log if the kernel refuses it.
  DeathTimer();
  DeathTimer(const DeathTimer&) = delete;
  DeathTimer& operator=(const DeathTimer&) = delete;
  ~DeathTimer();

  /// kNever: not at all.
  void set(TimePoint when);

 private:
  std::optional<timer_t> timer_;
};

}  // namespace ddprun
