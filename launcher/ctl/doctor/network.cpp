#include "launcher/ctl/doctor/network.hpp"

#include "base/descriptor.hpp"
#include "rendezvous/address.hpp"
#include "rendezvous/connect.hpp"

#include <algorithm>

#include <sys/socket.h>

namespace ddprun {

std::string source_address(const std::string& host) {
  constexpr std::uint16_t kPort = 9;  // any port: connecting a UDP socket sends nothing
  const auto addresses = look_up({.host = host, .port = kPort});
  if (!addresses) return {};
  for (const Address& address : *addresses) {
    const Descriptor socket(::socket(address.family(), SOCK_DGRAM | SOCK_CLOEXEC, 0));
    if (!socket || ::connect(socket.get(), address.get(), address.size) != 0) continue;
    const auto own = own_end(socket.get());
    if (own) return own->host();
  }
  return {};
}

Result<std::vector<std::string>> addresses_of(const std::string& host) {
  const auto addresses = look_up({.host = host, .port = 0});
  if (!addresses) return addresses.error();
  std::vector<std::string> texts;
  for (const Address& address : *addresses) {
    const std::string text = address.host();
    if (std::ranges::find(texts, text) == texts.end()) texts.push_back(text);
  }
  return texts;
}

Result<void> try_to_reach(const Endpoint& endpoint, TimePoint deadline) {
  const auto socket = connect_to(endpoint, deadline);
  if (!socket) return socket.error();
  return {};
}

}  // namespace ddprun
