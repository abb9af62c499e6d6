#pragma once

<<<<<<< HEAD
// What `ddpctl doctor` probes between this machine and others. Name services may hang, so these
// functions run as Probes.
=======
// What `ddpctl doctor` checks between this machine and others. These calls block, and a name
// service may hang, so each runs on a thread of its own.
>>>>>>> h/transport

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

<<<<<<< HEAD
/// Connects and closes the connection. Fails as connect_to() does.
=======
/// Connects, and that is all. Fails as BlockingSocket::connect() does.
>>>>>>> h/transport
Result<void> try_to_reach(const Endpoint& endpoint, TimePoint deadline);

}  // namespace ddprun
