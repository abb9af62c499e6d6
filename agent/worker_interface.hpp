#pragma once

#include "agent/core/interface_choice.hpp"
#include "base/deadline.hpp"
#include "rendezvous/core/interface.hpp"
#include "rendezvous/dial.hpp"

#include <boost/asio/io_context.hpp>

#include <optional>
#include <string>
#include <vector>

namespace ddprun {

/// Which network interface the workers of this node are told to use, round after round: looks up
/// what choose_interface() needs.
class WorkerInterface {
 public:
  /// `host` is this node's own host name.
  WorkerInterface(asio::io_context& context, std::string host);

  /// Looks up the host name and the interfaces, and again a second after each choose(), for the
  /// next one; until it is cancelled.
  asio::awaitable<void> serve();

  /// Until the first answer is there, which /etc/hosts gives at once; no longer than `patience`: a
  /// name service may take half a minute.
  asio::awaitable<void> first_answer(Duration patience);

  /// For a round that begins now. `own_address` is the address by which this node and the leader
  /// reach each other. A host name that the name service has not answered for does not serve: Gloo
  /// would wait for the same answer.
  std::optional<InterfaceChoice> choose(const std::string& own_address);

 private:
  asio::awaitable<void> read_interfaces();
  void reread_interfaces();
  void take(const Result<std::vector<Interface>>& found);

  HostName host_;
  std::vector<Interface> interfaces_;  // of this node, as of the last look
  NameService names_;
  Timer limit_;  // never expires: the name service has limits of its own
  Timer round_;  // expires a while after a round began
  Timer answered_;
  bool has_answer_ = false;
};

}  // namespace ddprun
