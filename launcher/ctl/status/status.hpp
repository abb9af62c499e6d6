#pragma once

#include "base/endpoint.hpp"
#include "base/error.hpp"

#include <optional>

namespace ddprun {

struct StatusOptions {
  // Of any node of the job: one that does not lead redirects to the leader. None: list this user's
  // jobs on this host.
  std::optional<Endpoint> endpoint;
  bool json = false;       // print the leader's reply unchanged
  double timeout_s = 5.0;  // in total
};

/// `ddpctl status`. Fails with kInvalidArgument; any other error may pass, or concern that endpoint
/// alone.
Result<void> show_status(const StatusOptions& options);

}  // namespace ddprun
