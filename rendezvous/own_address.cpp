#include "rendezvous/own_address.hpp"

#include "base/descriptor.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <ranges>
#include <string_view>

#include <ifaddrs.h>
#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

namespace ddprun {
namespace {

std::string numeric(const sockaddr* raw) {
  if (raw == nullptr || (raw->sa_family != AF_INET && raw->sa_family != AF_INET6)) return {};
  Address address;
  address.resize(raw->sa_family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6));
  std::memcpy(address.data(), raw, address.size());
  const bool is_of_link = address.address().is_v6() && address.address().to_v6().is_link_local();
  return is_of_link ? "" : host_of(address);
}

/// Asks the driver through `socket`: /sys shows the interfaces of the network namespace in which it
/// was mounted, which may be another one.
bool is_bridge(int socket, const std::string& name) {
  ethtool_drvinfo info{};
  info.cmd = ETHTOOL_GDRVINFO;
  ifreq request{};
  if (name.size() >= sizeof request.ifr_name) return false;
  std::ranges::copy(name, request.ifr_name);
  request.ifr_data = reinterpret_cast<char*>(&info);
  if (::ioctl(socket, SIOCETHTOOL, &request) != 0) return false;
  return std::string_view(info.driver, ::strnlen(info.driver, sizeof info.driver)) == "bridge";
}

}  // namespace

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

std::vector<std::string> own_ends(const std::vector<Address>& addresses) {
  std::vector<std::string> ends;
  for (const Address& address : addresses) {
    const auto own = own_among({address});
    const std::string end = own ? *own : source_address({address});
    if (!end.empty() && std::ranges::find(ends, end) == ends.end()) ends.push_back(end);
  }
  return ends;
}

Result<std::optional<std::string>> own_address(const std::string& host) {
  const auto addresses = look_up({.host = host, .port = 0});
  if (!addresses) return make_error(Errc::kNotFound, addresses.error().detail);
  return own_among(*addresses);
}

Result<std::vector<Interface>> own_interfaces() {
  ifaddrs* raw = nullptr;
  if (::getifaddrs(&raw) != 0) return make_errno_error(errno, "cannot list the interfaces");
  const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> list(
      raw, [](ifaddrs* all) { ::freeifaddrs(all); });
  const Descriptor socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  std::vector<Interface> interfaces;
  for (const ifaddrs* entry = list.get(); entry != nullptr; entry = entry->ifa_next) {
    auto known = std::ranges::find(interfaces, entry->ifa_name, &Interface::name);
    if (known == interfaces.end()) {
      known = interfaces.insert(known, {.name = entry->ifa_name, .addresses = {}});
      known->is_bridge = socket && is_bridge(socket.get(), known->name);
    }
    known->is_up = (entry->ifa_flags & IFF_UP) != 0;
    known->has_carrier = (entry->ifa_flags & IFF_RUNNING) != 0;
    known->is_loopback = (entry->ifa_flags & IFF_LOOPBACK) != 0;
    const std::string address = numeric(entry->ifa_addr);
    if (!address.empty()) known->addresses.push_back(address);
  }
  return interfaces;
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
