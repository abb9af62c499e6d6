#pragma once

// An agent that leads and has no workers: the port, the connections, the lifelines and
// RendezvousNode of a real one. Its workers are reported to start and to stop at once.

#include "base/error.hpp"
#include "base/event_queue.hpp"
#include "base/task_scope.hpp"
#include "rendezvous/core/effects.hpp"
#include "rendezvous/core/rendezvous_node.hpp"
#include "rendezvous/lifelines.hpp"
#include "rendezvous/links.hpp"
#include "rendezvous/store_server.hpp"

#include <boost/asio/io_context.hpp>

#include <cstdint>
#include <memory>
#include <string>

namespace ddprun {

class BenchLeader {
 public:
  /// Listens on a free port of loopback. Fails with kIo.
  static Result<std::unique_ptr<BenchLeader>> open(
      asio::io_context& context, RendezvousPolicy policy);

  std::uint16_t port() const { return server_->port(); }

  /// Leads until it is cancelled.
  asio::awaitable<void> serve();

 private:
  BenchLeader(asio::io_context& context, const std::string& job);

  Lifelines::Options lining(const std::string& job);

  asio::awaitable<void> keep_time();
  void on(Links::Connected event);
  void on(const Links::Resolved& /*no service address here*/) {}
  void on(Links::Received event);
  void on(Links::Closed event);
  void feed(RendezvousNode::Event event);
  void advance(const RendezvousNode::Event& event);
  void workers(RoundId round, WorkersState state);

  void perform(const effects::Call& effect) { links_.call(effect.link, effect.to); }
  void perform(const effects::Send& effect) { links_.send(effect.to, effect.message); }
  void perform(const effects::Close& effect) { links_.close(effect.link); }
  void perform(const effects::BeginStore& effect);
  void perform(const effects::StartWorkers& effect);
  void perform(const effects::StopWorkers& effect);
  template <class Other>
  void perform(const Other& /*for workers that run*/) {}

  std::unique_ptr<RendezvousNode> node_;
  Links links_;
  Lifelines lines_;
  std::unique_ptr<StoreServer> server_;
  Timer timer_;
  EventQueue<RendezvousNode::Event> events_;
  Effects effects_;  // of the event that is applied
};

}  // namespace ddprun
