#include "rendezvous/own_address.hpp"

#include "base/descriptor.hpp"
#include "rendezvous/interfaces.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <ranges>

#include <sys/socket.h>

namespace ddprun {
std::optional<std::string> own_among(const std::vector<Address>& addresses) {
  for (Address address : addresses) {
    const Descriptor socket(::socket(address.protocol().family(), SOCK_STREAM | SOCK_CLOEXEC, 0));
    // Without a port: one that is taken must not look like an address of another machine.
    address.port(0);
    if (!socket) continue;
    if (::bind(socket.get(), address.data(), static_cast<socklen_t>(address.size())) == 0) {
      return host_of(address);
    }
  }
  return std::nullopt;
}

std::string source_address(const std::vector<Address>& addresses) {
  for (const Address& address : addresses) {
    const Descriptor socket(::socket(address.protocol().family(), SOCK_DGRAM | SOCK_CLOEXEC, 0));
    const auto size = static_cast<socklen_t>(address.size());
    if (!socket || ::connect(socket.get(), address.data(), size) != 0) continue;
    if (const auto own = own_end(socket.get())) return host_of(*own);
  }
  return {};
}

Result<std::optional<std::string>> own_address(const std::string& host) {
  const auto addresses = look_up({.host = host, .port = 0});
  if (!addresses) return make_error(Errc::kNotFound, addresses.error().detail);
  return own_among(*addresses);
}

Result<std::string> interface_address(const std::string& name, Family preferred) {
  const auto interfaces = own_interfaces();
  if (!interfaces) return interfaces.error();
  const auto found = std::ranges::find(*interfaces, name, &Interface::name);
  if (found == interfaces->end()) {
    const auto names = *interfaces | std::views::transform(&Interface::name);
    return make_error(
        Errc::kNotFound,
        fmt::format("there is no interface '{}' here, only {}", name, fmt::join(names, ", ")));
  }
  if (!found->is_up) {
    return make_error(Errc::kNotFound, fmt::format("the interface '{}' is down", name));
  }
  if (found->addresses.empty()) {
    return make_error(
        Errc::kNotFound,
        fmt::format("the interface '{}' has no address that other machines can use", name));
  }
  const auto best = std::ranges::find_if(found->addresses, [preferred](const std::string& it) {
    return (it.find(':') != std::string::npos) == (preferred == Family::kIpv6);
  });
  return best == found->addresses.end() ? found->addresses.front() : *best;
}

}  // namespace ddprun
