#pragma once

// The network of one node: the one port with the store behind it, the connections between agents,
// and the lifelines. A shell: performs what RendezvousNode decides, and reports the results to it.
// A job of one node has the store alone, and no socket to itself.

#include "agent/advertisement.hpp"
#include "agent/core/launch_plan.hpp"
#include "agent/core/rendezvous_policy.hpp"
#include "agent/endpoint_watch.hpp"
#include "agent/guard_client.hpp"
#include "agent/node_port.hpp"
#include "base/descriptor.hpp"
#include "base/error.hpp"
#include "base/task_scope.hpp"
#include "rendezvous/core/effects.hpp"
#include "rendezvous/core/rendezvous_node.hpp"
#include "rendezvous/lifelines.hpp"
#include "rendezvous/links.hpp"
#include "rendezvous/status_page.hpp"
#include "rendezvous/store_server.hpp"

#include <boost/asio/io_context.hpp>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace ddprun {

class RendezvousNetwork {
 public:
  using OnEvent = std::function<void(RendezvousNode::Event)>;

  /// Binds the port that `plan` asks for: the endpoint's if this node bootstraps the job, else
  /// another one. Others can connect from here on. If the endpoint may become this node's, it is
  /// watched until a leader has welcomed this node: RendezvousNode::BecameHost. With `key` nodes
  /// authenticate each other. `plan` and `guard` outlive it. Fails with kIo or kInvalidArgument,
  /// naming the port.
  static Result<std::unique_ptr<RendezvousNetwork>> open(
      asio::io_context& context, const LaunchPlan& plan, GuardClient& guard, AuthKey key);

  ~RendezvousNetwork() = default;
  RendezvousNetwork(const RendezvousNetwork&) = delete;
  RendezvousNetwork& operator=(const RendezvousNetwork&) = delete;

  /// Whether this node bootstraps the job, where it listens, which machine this is, and which
  /// agents of the job are on it, for rendezvous_policy(). `chance` is random for each launch: the
  /// incarnation, and the seed of its pauses.
  RendezvousPolicy own_node(std::string host, std::uint64_t chance) const;

  /// Sets the receiver of events, and the pages of /status. REQUIRES: called before serve_in().
  void listen(OnEvent on_event, StatusPages status) {
    on_event_ = std::move(on_event);
    status_.emplace(std::move(status));
  }

  /// Serves in `tasks` until they are cancelled; then sends what was given.
  void serve_in(TaskScope& tasks);

  void call(const effects::Call& effect);
  void send(const effects::Send& effect);
  /// Sends now what send() was given: the agent is about to take long.
  void send_written();
  void close(const effects::Close& effect);
  void open_line(const effects::OpenLine& effect);
  void probe_lines(const effects::ProbeLines& effect);
  /// Workers that wait in the store, if it is here, are told that nothing will come.
  void end_waits();
  void begin_store(const effects::BeginStore& effect);

  /// Lets agents of this job that are started on this machine find this node, unless it is the only
  /// one. Once is enough.
  void advertise();
  /// This node no longer takes part.
  void stop_advertising() { advertisement_ = Descriptor(); }

  /// For each worker of the round that starts to hold: our lifelines, and while we lead the ends
  /// of those of the first successors. REQUIRES: no process of a worker runs.
  std::vector<int> lines_for_workers();

  /// The address at which the workers of a round rendezvous; `master`, as it was offered, has no
  /// host if it is this node.
  Endpoint master_of_round(const Endpoint& master) const;

  /// The address of this node from which packets to `master`, the same address, leave. If `master`
  /// is a name: the address that the connections with the leader have here. Empty if it is not
  /// known.
  std::string own_address(const Endpoint& master) const;

 private:
  RendezvousNetwork(
      asio::io_context& context, const LaunchPlan& plan, GuardClient& guard, AuthKey key);

  Result<void> open_links();
  bool is_endpoint_still_held() const;
  Result<std::uint16_t> listen_at_endpoint();
  AdvertisedJob advertised_job() const;
  void host_endpoint(const std::vector<Address>& addresses);
  void endpoint_resolved(std::vector<Address> addresses);
  void stop_watching_endpoint();
  void admit_to_store();
  Result<void> bootstrap_or_join();
  Result<void> refuse_others(const Error& why);
  StoreServerOptions what_is_served();
  void learn_own_address(const effects::BeginStore& effect);
  void report(Links::Event event);
  void report(const Lifelines::Event& event);

  /// What became of the endpoint when this node tried to listen there.
  struct Hosting {
    bool bootstraps = true;
    bool hosts_if_called = false;      // it listens at the endpoint all the same
    std::string cannot_host;           // why not, although it is to
    std::vector<std::string> held_by;  // the sockets that have its port, as /proc shows them
    std::string cannot_listen;         // why not, although the job may be there
    bool has_reported_taken = false;   // that the port is taken
  };

  // More than twelve: this joins all parts of the network.
  asio::io_context& context_;
  const LaunchPlan& plan_;
  GuardClient& guard_;
  const AuthKey key_;
  const Endpoint endpoint_;  // of the first leader; host "": a job of one node
  OnEvent on_event_;
  std::optional<StatusPages> status_;
  Hosting hosting_;
  std::unique_ptr<EndpointWatch> watch_;  // none: the endpoint cannot become this node's
  std::string seen_as_;                   // this node's host, as far as it is known here
  std::string reached_at_;                // its address on the connections with the leader
  Endpoint master_;                       // of a round that this node leads
  std::vector<Incarnation> successors_;   // of the newest such round
  std::set<Incarnation> in_round_;        // its other nodes
  Descriptor advertisement_;              // once it runs
  std::unique_ptr<Links> links_;          // none with one node
  std::unique_ptr<Lifelines> lines_;
  NodePort port_;  // does not listen if no worker uses it
};

}  // namespace ddprun
