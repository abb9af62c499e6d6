#pragma once

// The doctors of a step probe each other: each connects to all others on the port that the job
// would use, and accepts a connection from each. So every direction between two nodes is checked,
// and clocks are compared on the way.

#include "base/descriptor.hpp"
#include "base/time.hpp"
#include "launcher/ctl/doctor/core/network_diagnosis.hpp"
#include "slurm/core/allocation.hpp"

#include <cstdint>
#include <vector>

namespace ddprun {

struct ConnectivityLimits {
  Duration probe{};  // for one probe, on either side
  Duration all{};    // for all of them, including the start of the other nodes' doctors
};

/// Runs until all nodes have reached each other both ways, or until the limit. A node that did not
/// listen yet is probed again after half of the limit, and when it connects itself. A running job
/// that has `port` there counts as reached. `listening` are this node's sockets on `port`; empty: a
/// running job has it here, so no other node is waited for. REQUIRES: the step has other nodes.
std::vector<NodeConnectivity> check_connectivity(
    const Allocation& allocation,
    std::uint16_t port,
    std::vector<Descriptor> listening,
    ConnectivityLimits limits);

}  // namespace ddprun
