#pragma once

#include "base/error.hpp"
#include "rendezvous/core/interface.hpp"

#include <vector>

namespace ddprun {

/// The network interfaces of this machine, in the kernel's order. Asks no name service. Fails with
/// kIo.
Result<std::vector<Interface>> own_interfaces();

}  // namespace ddprun
