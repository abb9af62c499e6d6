#pragma once

#include "agent/core/interface_choice.hpp"
#include "base/deadline.hpp"
#include "rendezvous/dial.hpp"

#include <boost/asio/io_context.hpp>

#include <optional>
#include <string>

namespace ddprun {

/// Which network interface the workers of this node are told to use, round after round: looks up
/// what choose_interface() needs.
class WorkerInterface {
 public:
  /// `host` is this node's own host name.
  WorkerInterface(asio::io_context& context, std::string host);

  /// Looks the host name up, and again after each choose(), until it is cancelled. A name service
  /// may take half a minute, and nobody waits for it.
  asio::awaitable<void> serve();

  /// For a round that begins now. `own_address` is the address by which this node and the leader
  /// reach each other. A host name that the name service has not answered for does not serve: Gloo
  /// would wait for the same answer.
  std::optional<InterfaceChoice> choose(const std::string& own_address);

 private:
  HostName host_;
  NameService names_;
  Timer limit_;  // never expires: the name service has limits of its own
  Timer round_;  // never expires; cancelled when a round begins
};

}  // namespace ddprun
