#pragma once

#include "base/error.hpp"

#include <string>
#include <vector>

namespace ddprun {

struct HostlistOptions {
  std::vector<std::string> lists;  // in order
  bool fold = false;               // print one list instead of hosts
};

/// `ddpctl hostlist`: prints one host per line, or one list for all of them. Fails with
/// kInvalidArgument if a list is invalid.
Result<void> show_hostlist(const HostlistOptions& options);

}  // namespace ddprun
