#pragma once

// Who founds the job where nobody was told to: the node whose address the endpoint is. Apart from
// the agent, for it has to be known before the agent can listen, and may take long.

#include "agent/core/launch_plan.hpp"
#include "base/deadline.hpp"
#include "base/error.hpp"

namespace ddprun {

/// Whether `meeting.endpoint` is an address of this machine. A name that cannot be resolved yet, as
/// that of a machine which is being started, is asked for again until `meeting.join_timeout` is
/// over, and one line says so. Fails with kTimedOut then, and with kCancelled. REQUIRES: there is
/// an endpoint, and `meeting` outlives the call.
asio::awaitable<Result<bool>> is_at_endpoint(const MeetingPlan& meeting);

}  // namespace ddprun
