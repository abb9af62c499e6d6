#pragma once

// What `ddpctl doctor` probes between this machine and others. Name services may hang, so these
// functions run as Probes.

#include "base/endpoint.hpp"
#include "base/error.hpp"
#include "base/time.hpp"

#include <string>
#include <vector>

namespace ddprun {

/// The source address of packets to `host`, found without sending one; empty: no route leads
/// there.
std::string source_address(const std::string& host);

/// The numeric addresses of a host. Fails with kInvalidArgument if it has none.
Result<std::vector<std::string>> addresses_of(const std::string& host);

/// Connects and closes the connection. Fails as connect_to() does.
Result<void> try_to_reach(const Endpoint& endpoint, TimePoint deadline);

}  // namespace ddprun
