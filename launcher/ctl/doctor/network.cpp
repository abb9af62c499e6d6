#include "launcher/ctl/doctor/network.hpp"

#include "rendezvous/address.hpp"
#include "rendezvous/blocking_socket.hpp"
#include "rendezvous/own_address.hpp"

#include <algorithm>

namespace ddprun {

std::string source_address(const std::string& host) {
  constexpr std::uint16_t kPort = 9;  // any port: connecting a UDP socket sends nothing
  const auto addresses = look_up({.host = host, .port = kPort});
  if (!addresses) return {};
  return source_address(*addresses);
}

Result<std::vector<std::string>> addresses_of(const std::string& host) {
  const auto addresses = look_up({.host = host, .port = 0});
  if (!addresses) return addresses.error();
  std::vector<std::string> texts;
  for (const Address& address : *addresses) {
    const std::string text = host_of(address);
    if (std::ranges::find(texts, text) == texts.end()) texts.push_back(text);
  }
  return texts;
}

Result<void> try_to_reach(const Endpoint& endpoint, TimePoint deadline) {
  const auto socket = BlockingSocket::connect(endpoint, deadline);
  if (!socket) return socket.error();
  return {};
}

}  // namespace ddprun
