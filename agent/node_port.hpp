#pragma once

// The one port of a node, and the addresses of this machine at which it listens there. A shell:
// core/listen_addresses.hpp decides which.

#include "agent/core/launch_plan.hpp"
#include "agent/core/listen_addresses.hpp"
#include "base/descriptor.hpp"
#include "base/endpoint.hpp"
#include "base/error.hpp"
#include "base/once_per.hpp"
#include "rendezvous/address.hpp"
#include "rendezvous/port_owner.hpp"
#include "rendezvous/store_server.hpp"

#include <boost/asio/io_context.hpp>

#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace ddprun {

/// That `owner` has `port`, and what to do about it.
Error used_by(const PortOwner& owner, std::uint16_t port);

class NodePort {
 public:
  /// `serving` says what is served, and not where. `rendezvous` outlives it.
  NodePort(asio::io_context& context, const RendezvousPlan& rendezvous, StoreServerOptions serving);

  // Each of the following fails with kIo if the port is taken, naming the program that has it, and
  // kInvalidArgument for an address that is not of this machine.

  /// For a job of one node: listens at `master`, which its workers are told, and at the loopback.
  Result<void> listen_alone(const Endpoint& master);

  /// Listens at `port`, where nodes that do not know this one look for the endpoint.
  Result<void> listen_at_endpoint(std::uint16_t port);

  /// Listens at `port`, 0 for a free one, which the others learn when this node calls them.
  Result<void> listen_for_later(std::uint16_t port);

  /// This node calls another one from `host`, a numeric address of this machine: it listens there
  /// as well, unless --bind says otherwise.
  void called_from(const std::string& host);

  /// The endpoint was resolved to `addresses`.
  void endpoint_is_at(const std::vector<Address>& addresses);

  /// None: it does not listen yet.
  StoreServer* server() const { return server_.get(); }

 private:
  Result<void> listen(const ListenAddresses& where, std::uint16_t port);
  Result<void> listen_at(const Endpoint& place);
  Result<void> begin(const Endpoint& place);

  asio::io_context& context_;
  const RendezvousPlan& rendezvous_;
  StoreServerOptions serving_;
  std::vector<std::string> ends_;    // of this machine, towards the endpoint
  std::uint16_t endpoint_port_ = 0;  // that it listens at; 0: none
  Descriptor reserved_;              // the port of listen_for_later(), at all addresses
  std::set<std::pair<std::string, std::uint16_t>> places_;  // where it listens
  OncePer<std::string> unreached_;                          // addresses where it could not
  std::unique_ptr<StoreServer> server_;
};

}  // namespace ddprun
