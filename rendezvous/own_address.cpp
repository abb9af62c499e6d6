#include "rendezvous/own_address.hpp"

#include "base/descriptor.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <memory>
#include <vector>

#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>

namespace ddprun {
namespace {

std::string numeric(const sockaddr* address, socklen_t size) {
  std::array<char, NI_MAXHOST> text{};
  const int failed = ::getnameinfo(
      address, size, text.data(), static_cast<socklen_t>(text.size()), nullptr, 0, NI_NUMERICHOST);
  return failed == 0 ? text.data() : std::string();
}

bool is_usable(const ifaddrs& entry) {
  if (entry.ifa_addr == nullptr) return false;
  if (entry.ifa_addr->sa_family == AF_INET) return true;
  if (entry.ifa_addr->sa_family != AF_INET6) return false;
  const auto* const address = reinterpret_cast<const sockaddr_in6*>(entry.ifa_addr);
  return !IN6_IS_ADDR_LINKLOCAL(&address->sin6_addr);
}

bool is_of(const ifaddrs& entry, Family family) {
  return entry.ifa_addr->sa_family == (family == Family::kIpv4 ? AF_INET : AF_INET6);
}

Error no_such_interface(const std::string& name, const ifaddrs* list) {
  std::vector<std::string> names;
  for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
    if (std::ranges::find(names, entry->ifa_name) == names.end())
      names.emplace_back(entry->ifa_name);
  }
  return make_error(
      Errc::kNotFound,
      fmt::format("there is no interface '{}' here, only {}", name, fmt::join(names, ", ")));
}

}  // namespace

std::optional<std::string> own_among(const std::vector<Address>& addresses) {
  for (Address address : addresses) {
    const Descriptor socket(::socket(address.family(), SOCK_STREAM | SOCK_CLOEXEC, 0));
    // Without a port, so that one which is taken is told apart from an address which is not ours.
    address.set_port(0);
    if (socket && ::bind(socket.get(), address.get(), address.size) == 0) return address.host();
  }
  return std::nullopt;
}

Result<std::optional<std::string>> own_address(const std::string& host) {
  const auto addresses = look_up({.host = host, .port = 0});
  if (!addresses) return make_error(Errc::kNotFound, addresses.error().detail);
  return own_among(*addresses);
}

Result<std::string> interface_address(const std::string& name, Family preferred) {
  ifaddrs* raw = nullptr;
  if (::getifaddrs(&raw) != 0) return make_errno_error(errno, "cannot list the interfaces");
  const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> list(
      raw, [](ifaddrs* all) { ::freeifaddrs(all); });
  bool exists = false;
  bool is_up = false;
  const ifaddrs* best = nullptr;
  for (const ifaddrs* entry = list.get(); entry != nullptr; entry = entry->ifa_next) {
    if (name != entry->ifa_name) continue;
    exists = true;
    is_up = (entry->ifa_flags & IFF_UP) != 0;
    if (!is_usable(*entry)) continue;
    if (best == nullptr || (is_of(*entry, preferred) && !is_of(*best, preferred))) best = entry;
  }
  if (!exists) return no_such_interface(name, list.get());
  if (!is_up) {
    return make_error(Errc::kNotFound, fmt::format("the interface '{}' is down", name));
  }
  if (best == nullptr) {
    return make_error(
        Errc::kNotFound,
        fmt::format("the interface '{}' has no address that other machines can use", name));
  }
  const bool is_ipv4 = is_of(*best, Family::kIpv4);
  return numeric(best->ifa_addr, is_ipv4 ? sizeof(sockaddr_in) : sizeof(sockaddr_in6));
}

}  // namespace ddprun
