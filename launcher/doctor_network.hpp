#pragma once

// What `ddpctl doctor` looks at between this machine and others. Name services may hang, so these
// are taken as Looks.

#include "base/endpoint.hpp"
#include "base/error.hpp"
#include "base/time.hpp"
#include "launcher/core/network_diagnosis.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace ddprun {

Result<std::vector<Interface>> look_at_interfaces();

/// The address from which packets to `host` leave, without sending one; empty: no route leads
/// there.
std::string source_address(const std::string& host);

/// The addresses of a host as numbers. Fails with kInvalidArgument if it has none.
Result<std::vector<std::string>> addresses_of(const std::string& host);

/// Who listens on `port`, as far as /proc tells this user: "python3 (pid 812)"; empty if not at
/// all.
std::string owner_of(std::uint16_t port);

/// Connects, and that is all. Fails as connect_to() does.
Result<void> try_to_reach(const Endpoint& endpoint, TimePoint deadline);

}  // namespace ddprun
