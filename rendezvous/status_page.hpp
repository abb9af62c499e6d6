#pragma once

#include "base/time.hpp"
#include "rendezvous/core/rendezvous_node.hpp"
#include "rendezvous/http_session.hpp"

#include <string>

namespace ddprun {

/// What stands at /status of the node of `node`: the job's status as JSON if it leads, else the way
/// to the leader (307), else that none is known (503). `version` is that of ddprun.
HttpPage status_page(const RendezvousNode& node, std::string version, TimePoint now);

}  // namespace ddprun
