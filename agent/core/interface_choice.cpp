#include "agent/core/interface_choice.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string_view>

namespace ddprun {
namespace {

bool is_link_local(std::string_view address) {
  return address.starts_with("fe80:");
}

/// Why other nodes cannot reach the address that Gloo chooses by itself; empty: they can.
std::string why_not(
    const HostName& host, const Interface& leads, std::span<const Interface> interfaces) {
  if (!host.addresses) return host.addresses.error().detail;
  const std::string resolves = fmt::format("host name '{}' resolves to", host.name);
  for (const std::string& address : *host.addresses) {
    if (is_loopback(address)) return fmt::format("{} loopback address {}", resolves, address);
    if (is_link_local(address)) return fmt::format("{} link-local address {}", resolves, address);
    const Interface* const interface = interface_of(address, interfaces);
    if (interface == nullptr) continue;  // Gloo cannot bind it either, and tries the next one
    if (!interface->is_bridge || interface == &leads) return {};
    return fmt::format("{} {} of the bridge {}", resolves, address, interface->name);
  }
  return fmt::format(
      "{} {}, not an address of this node", resolves, fmt::join(*host.addresses, ", "));
}

}  // namespace

bool is_loopback(std::string_view address) {
  return address.starts_with("127.") || address == "::1";
}

const Interface* interface_of(const std::string& address, std::span<const Interface> interfaces) {
  const auto found = std::ranges::find_if(interfaces, [&address](const Interface& interface) {
    return std::ranges::find(interface.addresses, address) != interface.addresses.end();
  });
  return found == interfaces.end() ? nullptr : &*found;
}

std::optional<InterfaceChoice> choose_interface(
    const HostName& host, const std::string& own_address, std::span<const Interface> interfaces) {
  const Interface* const leads = interface_of(own_address, interfaces);
  if (leads == nullptr || leads->is_loopback || is_loopback(own_address)) return std::nullopt;
  std::string why = why_not(host, *leads, interfaces);
  if (why.empty()) return std::nullopt;
  return InterfaceChoice{.name = leads->name, .why = std::move(why)};
}

}  // namespace ddprun
