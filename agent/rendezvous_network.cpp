#include "agent/rendezvous_network.hpp"

#include "agent/core/interface_choice.hpp"
#include "agent/own_key.hpp"
#include "agent/own_machine.hpp"
#include "base/log.hpp"
#include "rendezvous/address.hpp"
#include "rendezvous/listener.hpp"
#include "rendezvous/own_address.hpp"
#include "rendezvous/port_owner.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>
#include <variant>

namespace ddprun {
namespace {

using namespace std::chrono_literals;

constexpr auto kLineKept = 10min;  // longer than any node waits

/// A port that was free a moment ago, for a store that rank 0 hosts. Another program may take it
/// first: that is why the shared store is the default.
Result<std::uint16_t> free_port(asio::io_context& context) {
  tcp::socket socket(context);
  boost::system::error_code error;
  static_cast<void>(socket.open(tcp::v4(), error));
  if (!error) static_cast<void>(socket.bind({tcp::v4(), 0}, error));
  const Address bound = socket.local_endpoint(error);
  if (error) return make_errno_error(error.value(), "no free port for rank 0's store");
  return bound.port();
}

/// The address of this machine that packets to `other`, a numeric address, come from; empty if
/// there is no way there.
std::string source_address(const Endpoint& other) {
  const auto to = numeric_address(other);
  return to ? ddprun::source_address({*to}) : "";
}

/// Whether the job may be at `port` of this machine, which another program has. Asks that program;
/// timeout 1 s.
bool may_be_joined_at(std::uint16_t port, const RendezvousPlan& rendezvous) {
  constexpr Duration kPatience = std::chrono::seconds(1);
  const auto owner = owner_of(port, kOwnerPatience);
  if (!owner) return true;
  // No other node may host the job of node rank 0, also none in a container that is hidden from it.
  const bool is_to_host = rendezvous.ranks_are_places && rendezvous.node_rank == 0;
  const auto hidden = is_to_host ? IfHidden::kIsNone : IfHidden::kMayBe;
  return may_host_job(*owner, rendezvous.nodes.max(), hidden, Clock::now() + kPatience);
}

}  // namespace

RendezvousNetwork::RendezvousNetwork(
    asio::io_context& context, const LaunchPlan& plan, GuardClient& guard, AuthKey key)
    : context_(context),
      plan_(plan),
      guard_(guard),
      key_(std::move(key)),
      endpoint_(plan.rendezvous.endpoint.value_or(Endpoint())),
      port_(context, plan.rendezvous, what_is_served()) {}

/// Called from the constructor: asked for only once connections come.
StoreServerOptions RendezvousNetwork::what_is_served() {
  StoreServerOptions options;
  options.pages = [this](const HttpRequest& request) -> std::optional<HttpPage> {
    if (request.path != "/status") return std::nullopt;
    return status_->page_for(key_, request.authorization, Clock::now());
  };
  // Posted, since the event may end the round while the server is busy with that client.
  options.on_client = [this] {
    asio::post(context_, [this] { on_event_(RendezvousNode::StoreReached{}); });
  };
  if (!plan_.rendezvous.has_others()) return options;
  options.for_agents = [this](Protocol protocol, Descriptor socket, std::string received) {
    if (protocol == Protocol::kAgent) return links_->adopt(std::move(socket), std::move(received));
    lines_->adopt(std::move(socket), std::move(received));
  };
  return options;
}

Result<std::unique_ptr<RendezvousNetwork>> RendezvousNetwork::open(
    asio::io_context& context, const LaunchPlan& plan, GuardClient& guard, AuthKey key) {
  std::unique_ptr<RendezvousNetwork> network(
      new RendezvousNetwork(context, plan, guard, std::move(key)));
  const Endpoint alone{.host = plan.master_address, .port = plan.master_port.value_or(0)};
  Result<void> opened;
  if (plan.rendezvous.endpoint) {
    opened = network->open_links();
    if (opened) opened = network->bootstrap_or_join();
  } else if (plan.shared_store) {
    opened = network->port_.listen_alone(alone);
  }
  if (!opened) return opened.error();
  network->master_ = {.host = plan.master_address, .port = plan.master_port.value_or(0)};
  if (plan.shared_store) {
    network->master_.port = network->port_.server()->port();
  } else if (network->master_.port == 0) {
    const auto port = free_port(context);
    if (!port) return port.error();
    network->master_.port = *port;
  }
  if (network->hosting_.bootstraps) report_if_open(plan, network->key_, network->master_.port);
  return network;
}

Result<void> RendezvousNetwork::open_links() {
  raise_descriptor_limit();  // a link and a lifeline of each node, if this one is to lead
  links_ = std::make_unique<Links>(
      context_, LinkLimits(), [this](Links::Event event) { report(std::move(event)); }, key_);
  Lifelines::Options options;
  options.job = plan_.job_among_nodes();
  options.key = key_;
  options.trusts_end = plan_.rendezvous.trusts_reset;
  // A node that is cut off waits for the others for the join timeout, perhaps twice.
  options.limits.unconfirmed = kLineKept + 2 * plan_.rendezvous.join_timeout;
  options.holders = {
      .hold_line = [this](int line) { return guard_.hold_line(line); },
      .hold_end = [this](int end) { guard_.hold_end(end); },
      .holds_end = [this](int end) { return guard_.holds_end(end); },
      .let_go = [this](int descriptor) { guard_.let_go(descriptor); }};
  options.on_event = [this](const Lifelines::Event& event) { report(event); };
  lines_ = std::make_unique<Lifelines>(context_, std::move(options));
  return {};
}

Result<void> RendezvousNetwork::bootstrap_or_join() {
  const RendezvousPlan& rendezvous = plan_.rendezvous;
  const bool may_bootstrap = rendezvous.bootstraps == Bootstraps::kIfItCanBind;
  if (rendezvous.bootstraps == Bootstraps::kYes ||
      (may_bootstrap && rendezvous.recognizes_endpoint)) {
    auto served = port_.listen_at_endpoint(endpoint_.port);
    for (const std::uint16_t port : rendezvous.other_ports) {
      if (served || !served.error().is(Errc::kIo)) break;
      spdlog::info("{}; port {} is tried", served.error().detail, port);
      served = port_.listen_at_endpoint(port);
    }
    // If the port is taken, as by another node of the job on this machine, that one bootstraps.
    const bool is_taken = !served && served.error().is(Errc::kIo);
    if (is_taken && !rendezvous.other_ports.empty()) {
      served = make_error(
          Errc::kIo,
          fmt::format(
              "ports {} and {} of this job's id are all taken; see which program uses them "
              "(ss -tlnp), or give --master-port",
              endpoint_.port,
              fmt::join(rendezvous.other_ports, ", ")));
    }
    if (served && rendezvous.recognizes_endpoint) seen_as_ = endpoint_.host;
    const bool is_only_port = rendezvous.other_ports.empty();
    const bool is_one_place =
        rendezvous.ranks_are_places && rendezvous.node_rank == 0 && !is_only_port;
    if (served || !is_taken) return served;
    const bool is_to_host = rendezvous.bootstraps == Bootstraps::kYes || is_one_place;
    const bool is_another_program = is_only_port && !may_be_joined_at(endpoint_.port, rendezvous);
    if (is_to_host || is_another_program) return refuse_others(served.error());
    spdlog::info(
        "another program listens on port {}; if it hosts the job, this node joins", endpoint_.port);
    hosting_.cannot_listen = served.error().detail;
    hosting_.has_reported_taken = true;
  }
  hosting_.bootstraps = false;
  if (may_bootstrap) {
    watch_ = std::make_unique<EndpointWatch>(
        context_, endpoint_, [this](const std::vector<Address>& at) { host_endpoint(at); });
    links_->report_addresses(true);
  }
  if (may_bootstrap && !rendezvous.recognizes_endpoint && rendezvous.node_rank == 0) {
    const auto served = listen_at_endpoint();
    hosting_.hosts_if_called = served.has_value();
    if (served) return {};
    spdlog::info("{}; it is not hosted here", served.error().detail);
  }
  return port_.listen_for_later(rendezvous.listen_port);
}

/// The endpoint cannot be here. If a port is left for it, the others, which would wait, are told
/// so; else this node ends.
Result<void> RendezvousNetwork::refuse_others(const Error& why) {
  for (const std::uint16_t port : plan_.rendezvous.refusal_ports) {
    if (!port_.listen_at_endpoint(port)) continue;
    hosting_.bootstraps = false;
    hosting_.cannot_host = why.detail;
    if (const auto owner = owner_of(endpoint_.port, Duration::zero()))
      hosting_.held_by = owner->inodes;
    return {};
  }
  return why;
}

/// Once the program that had the port is gone, the others are not refused any more: this node is
/// about to be started again, and then gets the port.
bool RendezvousNetwork::is_endpoint_still_held() const {
  const auto owner = owner_of(endpoint_.port, Duration::zero());  // its sockets are enough
  if (!owner) return hosting_.held_by.empty() && !listen_on({.host = "", .port = endpoint_.port});
  return std::ranges::find_first_of(owner->inodes, hosting_.held_by) != owner->inodes.end();
}

/// Listens at the endpoint's port as well, or at another port of the job. Yields the port.
Result<std::uint16_t> RendezvousNetwork::listen_at_endpoint() {
  std::vector<std::uint16_t> ports = plan_.rendezvous.other_ports;
  ports.insert(ports.begin(), endpoint_.port);
  Result<std::uint16_t> bound = endpoint_.port;
  for (const std::uint16_t port : ports) {
    const auto listens = port_.listen_at_endpoint(port);
    if (listens) return port;
    bound = listens.error();
  }
  return bound;
}

/// The endpoint has become this machine's, so this node hosts it.
void RendezvousNetwork::host_endpoint(const std::vector<Address>& addresses) {
  port_.endpoint_is_at(addresses);
  Result<std::uint16_t> port = port_.server()->port();
  if (!hosting_.hosts_if_called) port = listen_at_endpoint();
  if (!port) {
    if (!std::exchange(hosting_.has_reported_taken, true)) {
      const auto owner = owner_of(endpoint_.port, kOwnerPatienceOnLoop);
      const Error why = owner ? used_by(*owner, endpoint_.port) : port.error();
      const bool may_be_ours = !owner || owner->program.empty() || owner->program == "ddprun";
      spdlog::log(
          may_be_ours ? spdlog::level::info : spdlog::level::warn,
          "the endpoint has come to lead to this node, but {}; if the job is there, it is joined",
          why.detail);
    }
    return;  // the next call finds the node that has it, or that it is free
  }
  stop_watching_endpoint();
  seen_as_ = endpoint_.host;
  if (plan_.shared_store) master_.port = *port;
  on_event_(RendezvousNode::BecameHost{
      .listens = {.host = plan_.rendezvous.local_address, .port = *port}, .master = master_});
}

void RendezvousNetwork::endpoint_resolved(std::vector<Address> addresses) {
  port_.endpoint_is_at(addresses);
  if (watch_) watch_->resolved(std::move(addresses));
}

void RendezvousNetwork::stop_watching_endpoint() {
  if (!watch_) return;
  watch_->stop();
  links_->report_addresses(false);
}

RendezvousPolicy RendezvousNetwork::own_node(std::string host, std::uint64_t chance) const {
  RendezvousPolicy own;
  own.node.incarnation = Incarnation{chance};
  own.node.host = std::move(host);
  own.node.listens.host = plan_.rendezvous.local_address;
  if (const auto* const server = port_.server()) own.node.listens.port = server->port();
  own.node.machine = own_machine();
  own.bootstraps = hosting_.bootstraps;
  own.bootstrapped_ms = std::chrono::duration_cast<std::chrono::milliseconds>(
                            std::chrono::system_clock::now().time_since_epoch())
                            .count();
  own.hosts_if_called = hosting_.hosts_if_called;
  own.cannot_host = hosting_.cannot_host;
  own.if_unanswered = hosting_.cannot_listen;
  own.took_part = guard_.took_part();
  own.endpoint_has_name = plan_.rendezvous.endpoint && has_name(*plan_.rendezvous.endpoint);
  own.master = master_;
  if (links_) own.survivors = advertised(advertised_job());
  own.seed = chance;
  return own;
}

AdvertisedJob RendezvousNetwork::advertised_job() const {
  return {
      .id = plan_.job_among_nodes(),
      .endpoint = endpoint_,
      .program = plan_.command.name,
      .role = plan_.role};
}

void RendezvousNetwork::advertise() {
  if (!links_ || port_.server() == nullptr || advertisement_) return;
  Endpoint at{
      .host = plan_.rendezvous.local_address.empty() ? reached_at_ : plan_.rendezvous.local_address,
      .port = port_.server()->port()};
  if (!numeric_address(at)) at.host = "127.0.0.1";
  auto made = ddprun::advertise(advertised_job(), at);
  if (!made) return spdlog::info("{}", made.error().detail);
  advertisement_ = *std::move(made);
}

void RendezvousNetwork::serve_in(TaskScope& tasks) {
  if (auto* const server = port_.server()) tasks.spawn(server->serve());
  if (links_) tasks.spawn(links_->serve());
  if (watch_) watch_->serve_in(tasks);
  if (lines_) tasks.spawn(lines_->serve());
}

void RendezvousNetwork::report(Links::Event event) {
  if (auto* const resolved = std::get_if<Links::Resolved>(&event)) {
    if (resolved->to.host == endpoint_.host) endpoint_resolved(std::move(resolved->addresses));
  } else if (const auto* connected = std::get_if<Links::Connected>(&event)) {
    // Before the hello, by which the other node learns where this one is reached.
    if (const auto ours = links_->own_address_on(connected->link)) port_.called_from(ours->host);
    on_event_(RendezvousNode::Connected{.link = connected->link});
  } else if (auto* const received = std::get_if<Links::Received>(&event)) {
    if (!hosting_.cannot_host.empty() && !is_endpoint_still_held())
      return links_->close(received->link);
    on_event_(
        RendezvousNode::Received{.link = received->link, .message = std::move(received->message)});
  } else if (const auto* closed = std::get_if<Links::Closed>(&event)) {
    on_event_(RendezvousNode::Closed{
        .link = closed->link, .why = closed->why.detail, .is_foreign = closed->is_foreign});
  }
}

void RendezvousNetwork::report(const Lifelines::Event& event) {
  if (const auto* opened = std::get_if<Lifelines::LifelineOpened>(&event)) {
    if (in_round_.contains(opened->node)) admit_to_store();
    on_event_(
        RendezvousNode::LifelineOpened{.node = opened->node, .leadership = opened->leadership});
  } else if (const auto* ended = std::get_if<Lifelines::LifelineEnded>(&event)) {
    on_event_(RendezvousNode::LifelineEnded{.node = ended->node});
  } else if (const auto* dropped = std::get_if<Lifelines::LifelineDropped>(&event)) {
    on_event_(RendezvousNode::LifelineDropped{.node = dropped->node});
  } else if (const auto* goodbye = std::get_if<Lifelines::Goodbye>(&event)) {
    on_event_(RendezvousNode::Goodbye{.leadership = goodbye->leadership});
  }
}

void RendezvousNetwork::call(const effects::Call& effect) {
  if (links_) links_->call(effect.link, effect.to);
}

void RendezvousNetwork::send(const effects::Send& effect) {
  if (links_) links_->send(effect.to, effect.message);
}

void RendezvousNetwork::send_written() {
  if (links_) links_->send_written();
}

void RendezvousNetwork::close(const effects::Close& effect) {
  if (links_) links_->close(effect.link);
}

void RendezvousNetwork::open_line(const effects::OpenLine& effect) {
  stop_watching_endpoint();
  auto leader = links_ ? links_->address_of(effect.uplink) : std::nullopt;
  if (!leader) return;
  // Not through a virtual address, which may lead elsewhere by the time that the line is needed.
  if (numeric_address(effect.leader)) leader = effect.leader;
  const std::string source = source_address(*leader);
  if (!source.empty()) seen_as_ = reached_at_ = source;
  port_.called_from(source);
  lines_->open_line(*leader, effect.leadership, effect.node, links_->mac_of(effect.uplink));
}

void RendezvousNetwork::probe_lines(const effects::ProbeLines& effect) {
  if (lines_) lines_->probe(effect.node);
}

void RendezvousNetwork::begin_store(const effects::BeginStore& effect) {
  successors_ = effect.successors;
  auto* const server = port_.server();
  if (server == nullptr) return;
  learn_own_address(effect);
  stop_watching_endpoint();  // it leads
  StoreAccess access;
  in_round_.clear();
  for (const auto& node : effect.nodes) {
    if (node.link == kSelfLink) continue;  // this machine may connect anyway
    in_round_.insert(node.incarnation);
    const auto theirs = links_->address_of(node.link);
    const auto ours = links_->own_address_on(node.link);
    // Workers of this node may have no route to a virtual address that leads back here.
    if (seen_as_.empty() && ours) seen_as_ = ours->host;
    access.who = StoreAccess::Who::kNodes;
    access.hosts.insert(node.host);
    if (theirs) access.hosts.insert(theirs->host);
  }
  server->begin_round(std::move(access));
  admit_to_store();
}

/// With --local-addr workers reach this node by another way than their agents called it: by that of
/// their node's lifeline.
void RendezvousNetwork::admit_to_store() {
  if (plan_.rendezvous.local_address.empty()) return;
  std::set<std::string> hosts;
  for (const auto& [node, host] : lines_->callers()) {
    if (in_round_.contains(node)) hosts.insert(host);
  }
  port_.server()->admit(std::move(hosts));
}

void RendezvousNetwork::end_waits() {
  if (auto* const server = port_.server()) server->close_waiting();
}

/// Another node on this machine may connect through the loopback, which no third node can use.
void RendezvousNetwork::learn_own_address(const effects::BeginStore& effect) {
  for (const auto& node : effect.nodes) {
    if (node.link == kSelfLink) continue;
    const auto ours = links_->own_address_on(node.link);
    if (!ours) continue;
    reached_at_ = ours->host;
    if (!is_loopback(reached_at_)) return;
  }
}

std::vector<int> RendezvousNetwork::lines_for_workers() {
  if (!lines_) return {};
  auto lines = lines_->lines();
  const auto ends = lines_->hold_ends(successors_);
  lines.insert(lines.end(), ends.begin(), ends.end());
  return lines;
}

Endpoint RendezvousNetwork::master_of_round(const Endpoint& master) const {
  if (!master.host.empty()) return master;
  return {.host = seen_as_.empty() ? "127.0.0.1" : seen_as_, .port = master.port};
}

std::string RendezvousNetwork::own_address(const Endpoint& master) const {
  if (!plan_.rendezvous.local_address.empty()) return plan_.rendezvous.local_address;
  const std::string source = source_address(master);
  return source.empty() ? reached_at_ : source;
}

}  // namespace ddprun
