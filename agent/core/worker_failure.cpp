#include "agent/core/worker_failure.hpp"

#include <algorithm>

namespace ddprun {

std::string WorkerFailure::how() const {
  if (!start_error.empty()) return start_error;
  // The cause is another rank then. It may not have ended: it may hang, or run on another node.
  const bool lost_peer = suspicion() == Suspicion::kLostPeer;
  return end.to_string() + (lost_peer ? " (as one does that lost another rank)" : "");
}

void put_culprit_first(std::vector<WorkerFailure>& failures) {
  const auto culprit = std::ranges::min_element(failures, {}, &WorkerFailure::suspicion);
  if (culprit != failures.end()) std::rotate(failures.begin(), culprit, culprit + 1);
}

}  // namespace ddprun
