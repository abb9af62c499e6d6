#pragma once

// The addresses of this machine, as the kernel knows them.

#include "base/error.hpp"
#include "rendezvous/address.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace ddprun {

/// The first of `addresses` that is one of this machine, which is proved by binding it, as a
/// number; none if all are others'.
std::optional<std::string> own_among(const std::vector<Address>& addresses);

/// The same for the addresses of `host`. It may wait for a name server, so it has no place on a
/// thread that answers heartbeats. Fails with kNotFound while the name cannot be resolved.
Result<std::optional<std::string>> own_address(const std::string& host);

enum class Family : std::uint8_t { kIpv4, kIpv6 };

/// A numeric address of the network interface `name`, one of `preferred` if it has any. An IPv6
/// address that means nothing outside its link is none. Fails with kNotFound, telling which
/// interfaces there are, or that this one is down or has no address.
Result<std::string> interface_address(const std::string& name, Family preferred);

}  // namespace ddprun
