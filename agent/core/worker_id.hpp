#pragma once

#include <compare>

namespace ddprun {

/// Which worker, in which attempt.
struct WorkerId {
  int attempt = 0;     // restarts so far
  int local_rank = 0;  // 0 <= local_rank < workers of this node
  int rank = 0;        // in the world
  auto operator<=>(const WorkerId&) const = default;
};

}  // namespace ddprun
