#pragma once

#include "base/time.hpp"
#include "rendezvous/core/messages.hpp"
#include "rendezvous/core/policy.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <map>
#include <string>

namespace ddprun {

/// A node under its name and address, whatever its incarnation.
inline std::string place_of(const NodeInfo& node) {
  return fmt::format("{} {}", node.host, node.listens.to_string());
}

/// On which nodes the failures of a job began: one that breaks it now and then is not fit to run
/// workers, though each check of it finds nothing.
class NodeFailures {
 public:
  void began_at(const NodeInfo& node, TimePoint now) {
    auto& failures = failures_[place_of(node)];
    failures.push_back(now);
    if (std::ssize(failures) > kUnfitFailures) failures.pop_front();
  }

  bool empty() const { return failures_.empty(); }

  /// Why `node` had better run no workers, for people: kUnfitFailures failures or more within
  /// kUnfitWithin. Empty: it may.
  std::string why_unfit(const NodeInfo& node, TimePoint now) const {
    const auto found = failures_.find(place_of(node));
    if (found == failures_.end()) return {};
    const auto is_recent = [now](TimePoint at) { return now < at + kUnfitWithin; };
    const auto count = std::ranges::count_if(found->second, is_recent);
    if (count < kUnfitFailures) return {};
    return fmt::format("{} failures within an hour began there", count);
  }

 private:
  std::map<std::string, std::deque<TimePoint>> failures_;  // by place_of(): the newest
};

}  // namespace ddprun
