#pragma once

// How this node reaches the others, and they reach it: the one port with the store behind it, the
// connections between agents, and the life lines. A shell: performs what Peer decides, and tells it
// what came of that. On a job of one node there is the store alone, and no socket to itself.

#include "agent/core/launch_plan.hpp"
#include "agent/core/rendezvous_policy.hpp"
#include "agent/front.hpp"
#include "base/error.hpp"
#include "base/task_scope.hpp"
#include "rendezvous/core/effects.hpp"
#include "rendezvous/core/peer.hpp"
#include "rendezvous/life_lines.hpp"
#include "rendezvous/links.hpp"
#include "rendezvous/store_server.hpp"

#include <boost/asio/io_context.hpp>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace ddprun {

class PeerNetwork {
 public:
  using OnEvent = std::function<void(Peer::Event)>;

  /// Binds the port that `plan` asks for: the endpoint's if this node founds the job, else another
  /// one. Others can connect from here on. `front` outlives it. Fails with kIo or kInvalidArgument,
  /// naming the port.
  static Result<std::unique_ptr<PeerNetwork>> open(
      asio::io_context& context, const LaunchPlan& plan, Front& front);

  ~PeerNetwork() = default;
  PeerNetwork(const PeerNetwork&) = delete;
  PeerNetwork& operator=(const PeerNetwork&) = delete;

  /// Whether this node founds the job, and where it listens.
  OwnNode own_node(std::string host, std::uint64_t chance) const;

  /// To be called before anything is served. `status` is the page of /status.
  void listen(OnEvent on_event, std::function<HttpPage()> status) {
    on_event_ = std::move(on_event);
    status_ = std::move(status);
  }

  /// Serves in `tasks` until they are cancelled; then sends what was given.
  void serve_in(TaskScope& tasks);

  void call(const effects::Call& effect);
  void send(const effects::Send& effect);
  void close(const effects::Close& effect);
  void open_line(const effects::OpenLine& effect);
  void begin_store(const effects::BeginStore& effect);

  /// Our life lines, for each worker that is started to hold.
  std::vector<int> lines() const;

  /// Where the workers of a round meet; `master`, as it was offered, may lack the host if it is
  /// this node.
  Endpoint master_of_round(const Endpoint& master) const;

 private:
  PeerNetwork(asio::io_context& context, const LaunchPlan& plan, Front& front);

  Result<void> open_links(const LaunchPlan& plan);
  Result<void> found_or_join(const MeetingPlan& meeting, const Endpoint& endpoint);
  Result<void> serve_at(const Endpoint& endpoint);
  void adopt(Protocol protocol, Descriptor socket, const std::string& received);
  void tell(Links::Event event);
  void tell(const LifeLines::Event& event);

  asio::io_context& context_;
  Front& front_;
  OnEvent on_event_;
  std::function<HttpPage()> status_;
  bool founds_ = true;
  std::string local_address_;     // that others are told to use; empty: that they see
  std::string seen_as_;           // this node's host, as far as it is known here
  Endpoint master_;               // of a round that this node leads
  std::unique_ptr<Links> links_;  // none on one node
  std::unique_ptr<LifeLines> lines_;
  std::unique_ptr<StoreServer> server_;  // none where nobody needs it
};

}  // namespace ddprun
