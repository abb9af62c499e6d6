#pragma once

// Where the job's endpoint is: the first check, before the agent starts. It decides which node
// bootstraps the job, if none was told to (the one whose address the endpoint is), and at which
// addresses that node listens. RendezvousNetwork checks again.

#include "agent/core/launch_plan.hpp"
#include "base/deadline.hpp"
#include "rendezvous/address.hpp"

#include <vector>

namespace ddprun {

/// The addresses of `rendezvous.endpoint`; none if its name cannot be resolved within a second,
/// which is logged if this node might bootstrap the job. REQUIRES: there is an endpoint, and
/// `rendezvous` outlives the call.
asio::awaitable<std::vector<Address>> resolve_endpoint(const RendezvousPlan& rendezvous);

/// Whether one of `addresses`, the endpoint's, is this machine's. A node rank 0 that finds none is
/// warned.
bool is_at_endpoint(const RendezvousPlan& rendezvous, const std::vector<Address>& addresses);

}  // namespace ddprun
