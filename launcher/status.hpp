#pragma once

#include "base/endpoint.hpp"
#include "base/error.hpp"

namespace ddprun {

struct StatusOptions {
  Endpoint endpoint;       // of any node of the job: who does not lead names the leader
  bool json = false;       // what the leader sent, as it is
  double timeout_s = 5.0;  // for all of it
};

/// `ddpctl status`: asks and prints. Fails with kInvalidArgument, or otherwise where another try,
/// or another endpoint, may help.
Result<void> show_status(const StatusOptions& options);

}  // namespace ddprun
