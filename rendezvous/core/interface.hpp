#pragma once

#include <string>
#include <vector>

namespace ddprun {

/// A network interface of this machine.
struct Interface {
  std::string name;
  bool is_up = false;
  bool has_carrier = false;
  bool is_loopback = false;
  bool is_bridge = false;              // virtual, such as docker0
  std::vector<std::string> addresses;  // numeric; link-local IPv6 addresses are left out
};

}  // namespace ddprun
