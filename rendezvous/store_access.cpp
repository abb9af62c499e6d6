#include "rendezvous/store_access.hpp"

#include "rendezvous/address.hpp"
#include "rendezvous/own_address.hpp"

namespace ddprun {
namespace {

/// Whether both ends of `socket` are on this machine, which may have several addresses. Those of
/// the loopback can each stand for a node.
bool is_on_this_machine(int socket, const std::string& peer) {
  const auto own = own_end(socket);
  if (own && host_of(*own) == peer) return true;
  const auto number = numeric_address({.host = peer, .port = 0});
  return number && !peer.starts_with("127.") && own_among({*number}).has_value();
}

}  // namespace

bool StoreAccess::admits(int socket) const {
  if (who == Who::kEveryone) return true;
  const auto peer = peer_address(socket);
  if (!peer) return true;
  const std::string host = host_of(*peer);
  // Connections to 127.0.1.1, to which Debian has a host's own name lead, come from 127.0.0.1.
  if (who == Who::kNodes && hosts.contains(host)) return true;
  return host == "127.0.0.1" || is_on_this_machine(socket, host);
}

}  // namespace ddprun
