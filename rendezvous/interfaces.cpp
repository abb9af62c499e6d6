#include "rendezvous/interfaces.hpp"

#include "base/descriptor.hpp"
#include "rendezvous/address.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <string>
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

}  // namespace ddprun
