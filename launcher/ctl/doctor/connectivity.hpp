#pragma once

// The doctors of a step visit each other: each connects to all others at the port that the job
// would use, and is visited by all. So every way between two nodes is tried, and clocks are
// compared as they talk.

#include "base/descriptor.hpp"
#include "base/time.hpp"
#include "launcher/ctl/doctor/core/network_diagnosis.hpp"
#include "slurm/core/allocation.hpp"

#include <cstdint>
#include <vector>

namespace ddprun {

struct ConnectivityLimits {
  Duration probe{};  // for one visit, on either side
  Duration all{};    // for all of them, in which the doctors of other nodes have to start
};

/// Until all have met both ways, or the limit is over. A node that did not listen yet is visited
/// again when half of the limit is over, and when it comes by itself. `listening` are this node's
/// sockets at `port`. REQUIRES: the step has other nodes.
std::vector<Encounter> check_connectivity(
    const Allocation& allocation,
    std::uint16_t port,
    const std::vector<Descriptor>& listening,
    ConnectivityLimits limits);

}  // namespace ddprun
