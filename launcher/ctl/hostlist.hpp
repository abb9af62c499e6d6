#pragma once

#include "base/error.hpp"

#include <string>
#include <vector>

namespace ddprun {

struct HostlistOptions {
  std::vector<std::string> lists;  // one after the other
  bool fold = false;               // print one list instead of hosts
};

/// `ddpctl hostlist`: prints a host a line, or the list that stands for all of them. Fails with
/// kInvalidArgument where a list is wrong.
Result<void> show_hostlist(const HostlistOptions& options);

}  // namespace ddprun
