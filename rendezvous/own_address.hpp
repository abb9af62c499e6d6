#pragma once

// The addresses of this machine, as the kernel knows them. Both functions may wait for a name
// server, so neither belongs on a thread that answers beats.

#include "base/error.hpp"

#include <cstdint>
#include <optional>
#include <string>

namespace ddprun {

/// The numeric address of this machine that `host`, a name or an address, stands for, which is
/// proved by binding it; none if all of its addresses are others'. Fails with kNotFound while the
/// name cannot be resolved.
Result<std::optional<std::string>> own_address(const std::string& host);

enum class Family : std::uint8_t { kIpv4, kIpv6 };

/// A numeric address of the network interface `name`, one of `preferred` if it has any. An IPv6
/// address that means nothing outside its link is none. Fails with kNotFound, telling which
/// interfaces there are, or that this one is down or has no address.
Result<std::string> interface_address(const std::string& name, Family preferred);

}  // namespace ddprun
