#pragma once

// Who bootstraps the job where nobody was told to: the node whose address the endpoint is. The
// first look, apart from the agent, for it decides where the agent listens; RendezvousNetwork looks
// again.

#include "agent/core/launch_plan.hpp"
#include "base/deadline.hpp"
#include "base/error.hpp"

namespace ddprun {

/// Whether `meeting.endpoint` is an address of this machine. No, if its name cannot be resolved or
/// takes more than a second; one line says so if this node might found the job. REQUIRES: there is
/// an endpoint, and `meeting` outlives the call.
asio::awaitable<bool> is_at_endpoint(const RendezvousPlan& rendezvous);

}  // namespace ddprun
