#pragma once

// If no node was told to bootstrap the job, the node whose address the endpoint is does. This is
// the first check, before the agent starts, since it decides where the agent listens;
// RendezvousNetwork checks again.

#include "agent/core/launch_plan.hpp"
#include "base/deadline.hpp"
#include "base/error.hpp"

namespace ddprun {

/// Whether `rendezvous.endpoint` is an address of this machine. False if its name cannot be
/// resolved within a second; that is logged if this node might bootstrap the job. REQUIRES: there
/// is an endpoint, and `rendezvous` outlives the call.
asio::awaitable<bool> is_at_endpoint(const RendezvousPlan& rendezvous);

}  // namespace ddprun
