#pragma once

#include "base/time.hpp"
#include "rendezvous/core/rendezvous_node.hpp"
#include "rendezvous/http_session.hpp"

#include <string>

namespace ddprun {

/// The page /status of `node`: the job's status as JSON if it leads, a redirect to the leader (307)
/// if it knows one, else 503. `version` is that of ddprun.
HttpPage status_page(const RendezvousNode& node, std::string version, TimePoint now);

}  // namespace ddprun
