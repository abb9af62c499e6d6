#pragma once

// Lets agents that start on this machine find the agents of the same job that already run here,
// once the job has begun. The kernel keeps the record: an abstract Unix socket, which vanishes with
// its process and is visible only in its network namespace.

#include "base/descriptor.hpp"
#include "base/endpoint.hpp"
#include "base/error.hpp"

#include <string>
#include <vector>

namespace ddprun {

/// Identifies agents that would be nodes of one job.
struct AdvertisedJob {
  std::string id;
  Endpoint endpoint;  // as it was given
  std::string program;
  std::string role;
};

/// Until the descriptor is closed, agents that start here find `at`, a numeric address.
/// Fails with kIo.
Result<Descriptor> advertise(const AdvertisedJob& job, const Endpoint& at);

/// Addresses of the agents of `job` on this machine, at most 16; none if the kernel does not list
/// them (/proc/net/unix). They may have ended, and any process may advertise: call them, but do
/// not believe the list.
std::vector<Endpoint> advertised(const AdvertisedJob& job);

}  // namespace ddprun
