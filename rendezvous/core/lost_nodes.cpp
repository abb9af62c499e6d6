#include "rendezvous/core/lost_nodes.hpp"

#include <algorithm>

namespace ddprun {

void LostNodes::replaced_on(const std::string& host) {
  std::erase_if(searching_, [&host](const auto& entry) { return entry.second.host == host; });
}

void LostNodes::died(Incarnation node) {
  searching_.erase(node);
  if (silent_.contains(node)) dead_.push_back(node);
}

void LostNodes::round_starts(const KnownVoterSet& last, TimePoint unmet_until) {
  silent_.clear();
  dead_.clear();
  if (unmet_in(last) <= 0) return;
  unmet_ = unmet_in(last);
  unmet_of_ = last.round;
  unmet_until_ = unmet_until;
}

TimePoint LostNodes::searching_until() const {
  TimePoint until = unmet_ > 0 ? unmet_until_ : TimePoint();
  for (const auto& [incarnation, node] : searching_) {
    until = std::max(until, node.until);
  }
  return until;
}

}  // namespace ddprun
