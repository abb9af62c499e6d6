#pragma once

#include "base/endpoint.hpp"
#include "base/error.hpp"

#include <optional>
#include <string>

namespace ddprun {

struct StatusOptions {
  // Of any node of the job: one that does not lead redirects to the leader. None: list this user's
  // jobs on this host.
  std::optional<Endpoint> endpoint;
  std::string secret_file;  // of a job with a secret; empty: that of the environment
  bool json = false;        // print the leader's reply unchanged
  double timeout_s = 5.0;   // in total
};

/// `ddpctl status`. If the nodes of the job authenticate each other, it proves that this user is
/// the job's, or knows its secret. Fails with kInvalidArgument; any other error may pass, or
/// concern that endpoint alone.
Result<void> show_status(const StatusOptions& options);

}  // namespace ddprun
