#pragma once

#include "base/endpoint.hpp"
#include "base/error.hpp"

#include <optional>

namespace ddprun {

struct StatusOptions {
  // Of any node of the job: who does not lead names the leader. None: this user's jobs on this host
  // are listed.
  std::optional<Endpoint> endpoint;
  bool json = false;       // what the leader sent, as it is
  double timeout_s = 5.0;  // for all of it
};

/// `ddpctl status`: asks, or lists, and prints. Fails with kInvalidArgument, or otherwise where
/// another try, or another endpoint, may help.
Result<void> show_status(const StatusOptions& options);

}  // namespace ddprun
