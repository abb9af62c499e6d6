#pragma once

// Where on this machine agents of a job can be called in which it has begun, for those that are
// started beside them. The kernel keeps it: an abstract Unix socket, which vanishes with its
// process, and is seen in one network namespace.

#include "base/descriptor.hpp"
#include "base/endpoint.hpp"
#include "base/error.hpp"

#include <string>
#include <vector>

namespace ddprun {

/// Which agents are meant: those that would be nodes of one job.
struct AdvertisedJob {
  std::string id;
  Endpoint endpoint;  // as it was given
  std::string program;
  std::string role;
};

/// From now until the descriptor is closed, agents that start here find `at`, a numeric address.
/// Fails with kIo.
Result<Descriptor> advertise(const AdvertisedJob& job, const Endpoint& at);

/// The agents of `job` that are advertised on this machine, at most 16; none where the kernel does
/// not tell (/proc/net/unix). They may have ended, and anybody on this machine may advertise: to be
/// called, not to be believed.
std::vector<Endpoint> advertised(const AdvertisedJob& job);

}  // namespace ddprun
