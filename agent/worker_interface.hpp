#pragma once

#include "agent/core/interface_choice.hpp"
#include "base/deadline.hpp"
#include "rendezvous/core/interface.hpp"
#include "rendezvous/name_service.hpp"

#include <boost/asio/io_context.hpp>

#include <optional>
#include <string>
#include <vector>

namespace ddprun {

/// Chooses the network interface for the workers of this node, in each round: looks up what
/// choose_interface() needs.
class WorkerInterface {
 public:
  /// `host` is this node's own host name.
  WorkerInterface(asio::io_context& context, std::string host);

  /// Looks up the host name and the interfaces now, and again a second after each choose(), for the
  /// next call; until cancelled.
  asio::awaitable<void> serve();

  /// Waits for the first look-up of the host name, at most `patience`. /etc/hosts is read at once;
  /// a name service may take half a minute.
  asio::awaitable<void> first_answer(Duration patience);

  /// For a round that begins now. `own_address` is the address by which this node and the leader
  /// reach each other. A host name that is not resolved yet counts as unusable, because Gloo would
  /// wait for the same look-up.
  std::optional<InterfaceChoice> choose(const std::string& own_address);

 private:
  asio::awaitable<void> read_interfaces();
  void reread_interfaces();
  void take(const Result<std::vector<Interface>>& found);

  HostName host_;
  std::vector<Interface> interfaces_;  // of this node, as of the last look-up
  NameService names_;
  Timer limit_;  // never expires: the name service has its own limits
  Timer round_;  // expires a while after a round began
  Timer answered_;
  bool has_answer_ = false;
};

}  // namespace ddprun
