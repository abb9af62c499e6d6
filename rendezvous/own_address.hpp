#pragma once

// The addresses and network interfaces of this machine, as the kernel knows them.

#include "base/error.hpp"
#include "rendezvous/address.hpp"
#include "rendezvous/core/interface.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace ddprun {

/// The first of `addresses` that belongs to this machine, as a number; none if none does. Proved by
/// binding it.
std::optional<std::string> own_among(const std::vector<Address>& addresses);

/// The address from which this machine sends packets to the first of `addresses` that has a route;
/// empty if none has. Sends nothing.
std::string source_address(const std::vector<Address>& addresses);

/// The addresses of this machine that packets from and to each of `addresses` have here: the
/// address itself if it is this machine's, else that of the route. Each once; sends nothing.
std::vector<std::string> own_ends(const std::vector<Address>& addresses);

/// own_among() for the addresses of `host`. May wait for the name service, so do not call it on a
/// thread that answers heartbeats. Fails with kNotFound if the name cannot be resolved.
Result<std::optional<std::string>> own_address(const std::string& host);

/// The network interfaces of this machine, in the kernel's order. Asks no name service. Fails with
/// kIo.
Result<std::vector<Interface>> own_interfaces();

enum class Family : std::uint8_t { kIpv4, kIpv6 };

/// A numeric address of the network interface `name`, of the `preferred` family if it has one.
/// Link-local IPv6 addresses do not count. Fails with kNotFound, naming the interfaces that exist,
/// or if this one is down or has no address.
Result<std::string> interface_address(const std::string& name, Family preferred);

}  // namespace ddprun
