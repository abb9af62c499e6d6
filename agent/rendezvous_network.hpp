#pragma once

// How this node reaches the others, and they reach it: the one port with the store behind it, the
// connections between agents, and the lifelines. A shell: performs what RendezvousNode decides, and
// tells it what came of that. On a job of one node there is the store alone, and no socket to
// itself.

#include "agent/advertisement.hpp"
#include "agent/core/launch_plan.hpp"
#include "agent/core/rendezvous_policy.hpp"
#include "agent/guard_client.hpp"
#include "base/deadline.hpp"
#include "base/descriptor.hpp"
#include "base/error.hpp"
#include "base/task_scope.hpp"
#include "rendezvous/address.hpp"
#include "rendezvous/address_watch.hpp"
#include "rendezvous/core/effects.hpp"
#include "rendezvous/core/rendezvous_node.hpp"
#include "rendezvous/dial.hpp"
#include "rendezvous/lifelines.hpp"
#include "rendezvous/links.hpp"
#include "rendezvous/store_server.hpp"

#include <boost/asio/io_context.hpp>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace ddprun {

class RendezvousNetwork {
 public:
  using OnEvent = std::function<void(RendezvousNode::Event)>;

  /// Binds the port that `plan` asks for: the endpoint's if this node bootstraps the job, else
  /// another one. Others can connect from here on. Where the endpoint may come to be this node's,
  /// it is looked at again with each call to it, and when this machine gets an address, until a
  /// leader has welcomed this node: RendezvousNode::BecameHost. `plan` and `guard` outlive it.
  /// Fails with kIo or kInvalidArgument, naming the port.
  static Result<std::unique_ptr<RendezvousNetwork>> open(
      asio::io_context& context, const LaunchPlan& plan, GuardClient& guard);

  ~RendezvousNetwork() = default;
  RendezvousNetwork(const RendezvousNetwork&) = delete;
  RendezvousNetwork& operator=(const RendezvousNetwork&) = delete;

  /// Whether this node bootstraps the job, where it listens, which machine this is, and which
  /// agents of the job are on it.
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
  /// Now, what send() was given: the agent is about to take long.
  void send_written();
  void close(const effects::Close& effect);
  void open_line(const effects::OpenLine& effect);
  void probe_lines(const effects::ProbeLines& effect);
  void begin_store(const effects::BeginStore& effect);

  /// Tells agents of this job that are started on this machine where this node is. On a job of one
  /// node nothing. Once is enough.
  void advertise();
  /// It does not take part any more.
  void stop_advertising() { advertisement_ = Descriptor(); }

  /// For each worker of the round that starts to hold: our lifelines, and while we lead the ends
  /// of those of the first successors. REQUIRES: no process of a worker runs.
  std::vector<int> lines_for_workers();

  /// Where the workers of a round meet; `master`, as it was offered, may lack the host if it is
  /// this node.
  Endpoint master_of_round(const Endpoint& master) const;

  /// The address of this node from which packets to `master`, where the workers of a round meet,
  /// leave. If `master` is a name: the address that the connections with the leader have here.
  /// Empty if it is not known.
  std::string own_address(const Endpoint& master) const;

 private:
  RendezvousNetwork(asio::io_context& context, const LaunchPlan& plan, GuardClient& guard);

  Result<void> open_links(const LaunchPlan& plan);
  bool is_endpoint_still_held() const;
  Result<std::uint16_t> listen_at_endpoint(
      const RendezvousPlan& rendezvous, const Endpoint& endpoint);
  bool has_name() const;
  AdvertisedJob advertised_job() const;
  void consider_hosting();
  void stop_watching_endpoint();
  asio::awaitable<void> watch_endpoint();
  Result<void> bootstrap_or_join(const RendezvousPlan& rendezvous, const Endpoint& endpoint);
  Result<void> refuse_others(
      const RendezvousPlan& rendezvous, const Endpoint& endpoint, const Error& why);
  Result<void> serve_at(const Endpoint& endpoint);
  void learn_own_address(const effects::BeginStore& effect);
  void adopt(Protocol protocol, Descriptor socket, const std::string& received);
  void report(Links::Event event);
  void report(const Lifelines::Event& event);

  asio::io_context& context_;
  GuardClient& guard_;
  OnEvent on_event_;
  std::function<HttpPage()> status_;
  const LaunchPlan& plan_;
  bool bootstraps_ = true;
  bool hosts_if_called_ = false;      // it listens at the endpoint all the same
  std::string cannot_host_;           // why not, though it was to
  std::vector<std::string> held_by_;  // the sockets that have its port, as /proc shows them
  std::string cannot_listen_;         // why not, though the job may be there
  bool watches_endpoint_ = false;     // whether the endpoint has become this node's
  std::vector<Address> endpoint_at_;  // where it led the last time that it was called
  NameService names_;
  Timer watch_timer_;                    // unless a call has looked by then
  bool has_reported_taken_ = false;      // that its port is
  std::unique_ptr<AddressWatch> watch_;  // while it looks; none: the calls alone tell
  std::string local_address_;            // that others are told to use; empty: that they see
  std::string seen_as_;                  // this node's host, as far as it is known here
  std::string reached_at_;               // its address on the connections with the leader
  Endpoint master_;                      // of a round that this node leads
  std::vector<Incarnation> successors_;  // of the newest such round
  Descriptor advertisement_;             // once it runs
  std::unique_ptr<Links> links_;         // none on one node
  std::unique_ptr<Lifelines> lines_;
  std::unique_ptr<StoreServer> server_;  // none where nobody needs it
};

}  // namespace ddprun
