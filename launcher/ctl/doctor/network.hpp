#pragma once

// What `ddpctl doctor` looks at between this machine and others. Name services may hang, so these
// are taken as Looks.

#include "base/endpoint.hpp"
#include "base/error.hpp"
#include "base/time.hpp"

#include <string>
#include <vector>

namespace ddprun {

/// The address from which packets to `host` leave, without sending one; empty: no route leads
/// there.
std::string source_address(const std::string& host);

/// The addresses of a host as numbers. Fails with kInvalidArgument if it has none.
Result<std::vector<std::string>> addresses_of(const std::string& host);

/// Connects, and that is all. Fails as connect_to() does.
Result<void> try_to_reach(const Endpoint& endpoint, TimePoint deadline);

}  // namespace ddprun
