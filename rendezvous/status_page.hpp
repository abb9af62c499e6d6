#pragma once

#include "base/time.hpp"
#include "rendezvous/core/peer.hpp"
#include "rendezvous/http_session.hpp"

#include <string>

namespace ddprun {

/// What stands at /status of the node of `peer`: the job's status as JSON if it leads, else the way
/// to the leader (307), else that none is known (503). `version` is that of ddprun.
HttpPage status_page(const Peer& peer, std::string version, TimePoint now);

}  // namespace ddprun
