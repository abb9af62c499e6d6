#include "agent/rendezvous_network.hpp"

#include "agent/own_machine.hpp"
#include "base/log.hpp"
#include "rendezvous/address.hpp"
#include "rendezvous/listener.hpp"
#include "rendezvous/load_mac.hpp"
#include "rendezvous/own_address.hpp"
#include "rendezvous/port_owner.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <optional>
#include <utility>
#include <variant>

#include <netinet/in.h>
#include <sys/socket.h>

namespace ddprun {
namespace {

using namespace std::chrono_literals;

constexpr auto kEndpointRecheckAfter = 300ms;  // where no call has
constexpr auto kNamePatience = 1s;
constexpr auto kLineKept = 10min;  // longer than anybody waits

/// A port that was free a moment ago, for a store that rank 0 hosts. Somebody else may take it
/// first: that is why the shared store is the default.
Result<std::uint16_t> free_port() {
  const Descriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  socklen_t size = sizeof address;
  auto* const generic = reinterpret_cast<sockaddr*>(&address);
  if (!socket || ::bind(socket.get(), generic, size) != 0 ||
      ::getsockname(socket.get(), generic, &size) != 0) {
    return make_errno_error(errno, "no free port for rank 0's store");
  }
  return ntohs(address.sin_port);
}

/// The address of this machine that packets to `other`, a numeric address, come from; empty if
/// there is no way there. Sends nothing.
std::string source_address(const Endpoint& other) {
  const auto to = numeric_address(other);
  if (!to) return "";
  const Descriptor socket(::socket(to->family(), SOCK_DGRAM | SOCK_CLOEXEC, 0));
  Address from;
  from.size = sizeof from.storage;
  if (!socket || ::connect(socket.get(), to->get(), to->size) != 0 ||
      ::getsockname(socket.get(), from.get(), &from.size) != 0) {
    return "";
  }
  return from.host();
}

/// Whether the job may be at `port` of this machine, which another program has. Asks that program,
/// and waits for an answer for a second.
bool may_be_joined_at(std::uint16_t port, const RendezvousPlan& rendezvous) {
  constexpr Duration kPatience = std::chrono::seconds(1);
  const auto owner = owner_of(port);
  if (!owner) return true;
  // No other node may host the job of node rank 0, also none in a container that is hidden from it.
  const bool is_to_host = rendezvous.ranks_are_places && rendezvous.node_rank == 0;
  const auto hidden = is_to_host ? IfHidden::kIsNone : IfHidden::kMayBe;
  return may_host_job(*owner, rendezvous.nodes.max(), hidden, Clock::now() + kPatience);
}

Error used_by(const PortOwner& owner, std::uint16_t port) {
  return make_error(
      Errc::kIo,
      fmt::format(
          "port {} is used by {}; stop that program, or choose another port (--rdzv-endpoint, "
          "--master-port)",
          port,
          owner.to_string()));
}

}  // namespace

RendezvousNetwork::RendezvousNetwork(
    asio::io_context& context, const LaunchPlan& plan, GuardClient& guard)
    : context_(context),
      guard_(guard),
      plan_(plan),
      watch_timer_(context, kNever),
      local_address_(plan.rendezvous.local_address) {}

Result<std::unique_ptr<RendezvousNetwork>> RendezvousNetwork::open(
    asio::io_context& context, const LaunchPlan& plan, GuardClient& guard) {
  std::unique_ptr<RendezvousNetwork> network(new RendezvousNetwork(context, plan, guard));
  if (plan.rendezvous.endpoint) {
    auto opened = network->open_links(plan);
    if (opened) opened = network->bootstrap_or_join(plan.rendezvous, *plan.rendezvous.endpoint);
    if (!opened) return opened.error();
  } else if (plan.shared_store) {
    auto const served = network->serve_at({.host = "", .port = plan.master_port.value_or(0)});
    if (!served) return served.error();
  }
  network->master_ = {.host = plan.master_address, .port = plan.master_port.value_or(0)};
  if (plan.shared_store) {
    network->master_.port = network->server_->port();
  } else if (network->master_.port == 0) {
    const auto port = free_port();
    if (!port) return port.error();
    network->master_.port = *port;
  }
  return network;
}

Result<void> RendezvousNetwork::open_links(const LaunchPlan& plan) {
  raise_descriptor_limit();  // a link and a lifeline of each node, if this one is to lead
  const auto mac = load_mac(plan.rendezvous.secret);
  if (!mac) return mac.error();
  auto links = Links::open(
      context_, {}, [this](Links::Event event) { report(std::move(event)); }, *mac);
  if (!links) return links.error();
  links_ = *std::move(links);
  Lifelines::Options options;
  options.job = plan.job_among_nodes();
  options.mac = *mac;
  options.trusts_end = plan.rendezvous.trusts_reset;
  // Whoever is cut off waits for the others for the join timeout, and may begin that anew.
  options.limits.unconfirmed = kLineKept + 2 * plan.rendezvous.join_timeout;
  options.holders = {
      .hold_line = [this](int line) { return guard_.hold_line(line); },
      .hold_end = [this](int end) { guard_.hold_end(end); },
      .holds_end = [this](int end) { return guard_.holds_end(end); },
      .let_go = [this](int descriptor) { guard_.let_go(descriptor); }};
  options.on_event = [this](const Lifelines::Event& event) { report(event); };
  auto lines = Lifelines::open(context_, std::move(options));
  if (!lines) return lines.error();
  lines_ = *std::move(lines);
  return {};
}

Result<void> RendezvousNetwork::bootstrap_or_join(
    const RendezvousPlan& rendezvous, const Endpoint& endpoint) {
  const bool may_bootstrap = rendezvous.bootstraps == Bootstraps::kIfItCanBind;
  if (rendezvous.bootstraps == Bootstraps::kYes ||
      (may_bootstrap && rendezvous.recognizes_endpoint)) {
    auto served = serve_at({.host = "", .port = endpoint.port});
    for (const std::uint16_t port : rendezvous.other_ports) {
      if (served || !served.error().is(Errc::kIo)) break;
      spdlog::info("{}; port {} is tried", served.error().detail, port);
      served = serve_at({.host = "", .port = port});
    }
    // Where the port is taken, by another node of the job on this machine for one, that one
    // bootstraps.
    const bool is_taken = !served && served.error().is(Errc::kIo);
    if (is_taken && !rendezvous.other_ports.empty()) {
      served = make_error(
          Errc::kIo,
          fmt::format(
              "ports {} and {} of this job's id are all taken; see by whom (ss -tlnp), or give "
              "--master-port",
              endpoint.port,
              fmt::join(rendezvous.other_ports, ", ")));
    }
    if (served && rendezvous.recognizes_endpoint) seen_as_ = endpoint.host;
    const bool is_only_port = rendezvous.other_ports.empty();
    const bool is_one_place =
        rendezvous.ranks_are_places && rendezvous.node_rank == 0 && !is_only_port;
    if (served || !is_taken) return served;
    const bool is_to_host = rendezvous.bootstraps == Bootstraps::kYes || is_one_place;
    const bool is_another_program = is_only_port && !may_be_joined_at(endpoint.port, rendezvous);
    if (is_to_host || is_another_program)
      return refuse_others(rendezvous, endpoint, served.error());
    spdlog::info("{}, unless the job is there, which is joined", served.error().detail);
    cannot_listen_ = served.error().detail;
    has_reported_taken_ = true;
  }
  bootstraps_ = false;
  watches_endpoint_ = may_bootstrap;
  links_->report_addresses(watches_endpoint_);
  if (watches_endpoint_) {
    auto watch = AddressWatch::open(context_, [this] { consider_hosting(); });
    if (watch) watch_ = *std::move(watch);
  }
  if (may_bootstrap && !rendezvous.recognizes_endpoint && rendezvous.node_rank == 0) {
    const auto served = listen_at_endpoint(rendezvous, endpoint);
    hosts_if_called_ = served.has_value();
    if (served) return {};
    spdlog::info("{}; it is not hosted here", served.error().detail);
  }
  return serve_at({.host = "", .port = rendezvous.listen_port});
}

/// The endpoint cannot be here. Where there is a place for it the others are told so, who would
/// wait for it; else this node ends.
Result<void> RendezvousNetwork::refuse_others(
    const RendezvousPlan& rendezvous, const Endpoint& endpoint, const Error& why) {
  for (const std::uint16_t port : rendezvous.refusal_ports) {
    if (!serve_at({.host = "", .port = port})) continue;
    bootstraps_ = false;
    cannot_host_ = why.detail;
    if (const auto owner = owner_of(endpoint.port)) held_by_ = owner->inodes;
    return {};
  }
  return why;
}

/// Once the program that had the port is gone, the others are not told of it: whoever has stopped
/// it starts this node again, and that one has the port.
bool RendezvousNetwork::is_endpoint_still_held() const {
  const std::uint16_t port = plan_.rendezvous.endpoint.value_or(Endpoint()).port;
  const auto owner = owner_of(port);
  if (!owner) return held_by_.empty() && !listen_on({.host = "", .port = port});
  return std::ranges::find_first_of(owner->inodes, held_by_) != owner->inodes.end();
}

/// Listens where the others look for the first leader, on top of what it listens on. Yields the
/// port.
Result<std::uint16_t> RendezvousNetwork::listen_at_endpoint(
    const RendezvousPlan& rendezvous, const Endpoint& endpoint) {
  std::vector<std::uint16_t> ports = {endpoint.port};
  ports.insert(ports.end(), rendezvous.other_ports.begin(), rendezvous.other_ports.end());
  Result<std::uint16_t> bound = endpoint.port;
  for (const std::uint16_t port : ports) {
    const Endpoint at{.host = "", .port = port};
    const auto served = server_ ? server_->listen_too(at) : serve_at(at);
    if (served) return port;
    bound = served.error();
  }
  return bound;
}

/// Whether the endpoint leads to this machine by now: then this node hosts it.
void RendezvousNetwork::consider_hosting() {
  const Endpoint endpoint = plan_.rendezvous.endpoint.value_or(Endpoint());
  if (!watches_endpoint_ || !own_among(endpoint_at_)) return;
  Result<std::uint16_t> port = server_->port();
  if (!hosts_if_called_) port = listen_at_endpoint(plan_.rendezvous, endpoint);
  if (!port) {
    if (!std::exchange(has_reported_taken_, true)) {
      const auto owner = owner_of(endpoint.port);
      const Error why = owner ? used_by(*owner, endpoint.port) : port.error();
      const bool may_be_ours = !owner || owner->program.empty() || owner->program == "ddprun";
      spdlog::log(
          may_be_ours ? spdlog::level::info : spdlog::level::warn,
          "the endpoint has come to lead to this node, but {}; if the job is there, it is joined",
          why.detail);
    }
    return;  // the next call finds whoever has it, or that it is free
  }
  stop_watching_endpoint();
  seen_as_ = endpoint.host;
  if (plan_.shared_store) master_.port = *port;
  on_event_(RendezvousNode::BecameHost{
      .listens = {.host = local_address_, .port = *port}, .master = master_});
}

/// A call that hangs at a stale address would hold up the look at the name's new one.
asio::awaitable<void> RendezvousNetwork::watch_endpoint() {
  co_await asio::this_coro::throw_if_cancelled(false);
  const Endpoint endpoint = plan_.rendezvous.endpoint.value_or(Endpoint());
  watch_timer_.expires_at(Clock::now() + kEndpointRecheckAfter);
  while (watches_endpoint_) {
    const auto [re_armed] = co_await watch_timer_.async_wait(kTuple);
    if (!re_armed) {
      Timer limit(context_, Clock::now() + kNamePatience);
      auto addresses = co_await names_.look_up(endpoint, limit);
      if (addresses) {
        endpoint_at_ = *std::move(addresses);
        consider_hosting();
      }
      watch_timer_.expires_at(Clock::now() + kEndpointRecheckAfter);
    }
    const asio::cancellation_state asked = co_await asio::this_coro::cancellation_state;
    if (asked.cancelled() != asio::cancellation_type::none) co_return;
  }
}

void RendezvousNetwork::stop_watching_endpoint() {
  watches_endpoint_ = false;
  if (links_) links_->report_addresses(false);
  watch_timer_.expires_at(Clock::now());
  if (watch_) watch_->stop();
}

Result<void> RendezvousNetwork::serve_at(const Endpoint& endpoint) {
  StoreServerOptions options;
  options.endpoint = endpoint;
  options.pages = [this](std::string_view path) -> std::optional<HttpPage> {
    if (path != "/status") return std::nullopt;
    return status_();
  };
  // Not amid what the server does for that client: the round may end by what follows.
  options.on_client = [this] {
    asio::post(context_, [this] { on_event_(RendezvousNode::StoreReached{}); });
  };
  if (links_) {
    options.for_agents = [this](Protocol protocol, Descriptor socket, const std::string& received) {
      adopt(protocol, std::move(socket), received);
    };
  }
  auto server = StoreServer::listen(context_, options);
  if (!server && server.error().is(Errc::kIo)) {
    if (const auto owner = owner_of(endpoint.port)) return used_by(*owner, endpoint.port);
    server = StoreServer::listen(context_, options);  // the program that had the port has ended
  }
  if (!server) return with_context("the store for the workers", server.error());
  server_ = *std::move(server);
  return {};
}

OwnNode RendezvousNetwork::own_node(std::string host, std::uint64_t chance) const {
  OwnNode own;
  own.host = std::move(host);
  own.chance = chance;
  own.started_ms = std::chrono::duration_cast<std::chrono::milliseconds>(
                       std::chrono::system_clock::now().time_since_epoch())
                       .count();
  own.bootstraps = bootstraps_;
  own.hosts_if_called = hosts_if_called_;
  own.cannot_host = cannot_host_;
  own.cannot_listen = cannot_listen_;
  own.took_part = guard_.took_part();
  own.meets_by_name = has_name();
  own.listens.host = local_address_;
  if (server_) own.listens.port = server_->port();
  own.master = master_;
  own.machine = own_machine();
  if (links_) own.survivors = advertised(advertised_job());
  return own;
}

AdvertisedJob RendezvousNetwork::advertised_job() const {
  return {
      .id = plan_.job_among_nodes(),
      .endpoint = plan_.rendezvous.endpoint.value_or(Endpoint()),
      .program = plan_.command.name,
      .role = plan_.role};
}

void RendezvousNetwork::advertise() {
  if (!links_ || !server_ || advertisement_) return;
  Endpoint at{
      .host = local_address_.empty() ? reached_at_ : local_address_, .port = server_->port()};
  if (!numeric_address(at)) at.host = "127.0.0.1";
  auto made = ddprun::advertise(advertised_job(), at);
  if (!made) return spdlog::info("{}", made.error().detail);
  advertisement_ = *std::move(made);
}

/// Whether a name service says where the endpoint is.
bool RendezvousNetwork::has_name() const {
  const auto& endpoint = plan_.rendezvous.endpoint;
  return endpoint && !numeric_address(*endpoint) && endpoint->host != "localhost";
}

void RendezvousNetwork::serve_in(TaskScope& tasks) {
  if (server_) tasks.spawn(server_->serve());
  if (links_) tasks.spawn(links_->serve());
  if (watch_) tasks.spawn(watch_->serve());
  if (watches_endpoint_ && has_name()) tasks.spawn(watch_endpoint());
  if (lines_) tasks.spawn(lines_->serve());
}

void RendezvousNetwork::adopt(Protocol protocol, Descriptor socket, const std::string& received) {
  if (protocol == Protocol::kAgent) return links_->adopt(std::move(socket), received);
  lines_->adopt(std::move(socket), received);
}

void RendezvousNetwork::report(Links::Event event) {
  if (auto* const resolved = std::get_if<Links::Resolved>(&event)) {
    const Endpoint endpoint = plan_.rendezvous.endpoint.value_or(Endpoint());
    if (resolved->to.host != endpoint.host) return;
    endpoint_at_ = std::move(resolved->addresses);
    watch_timer_.expires_at(Clock::now() + kEndpointRecheckAfter);
    consider_hosting();
  } else if (const auto* connected = std::get_if<Links::Connected>(&event)) {
    on_event_(RendezvousNode::Connected{.link = connected->link});
  } else if (auto* const received = std::get_if<Links::Received>(&event)) {
    if (!cannot_host_.empty() && !is_endpoint_still_held()) return links_->close(received->link);
    on_event_(
        RendezvousNode::Received{.link = received->link, .message = std::move(received->message)});
  } else if (const auto* closed = std::get_if<Links::Closed>(&event)) {
    on_event_(RendezvousNode::Closed{
        .link = closed->link, .why = closed->why.detail, .is_foreign = closed->is_foreign});
  }
}

void RendezvousNetwork::report(const Lifelines::Event& event) {
  if (const auto* opened = std::get_if<Lifelines::LifelineOpened>(&event)) {
    on_event_(
        RendezvousNode::LifelineOpened{.node = opened->node, .leadership = opened->leadership});
  } else if (const auto* ended = std::get_if<Lifelines::LifelineEnded>(&event)) {
    on_event_(RendezvousNode::LifelineEnded{.node = ended->node});
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
  // Past a virtual address, which may lead elsewhere by the time that the line is needed.
  if (numeric_address(effect.leader)) leader = effect.leader;
  const std::string source = source_address(*leader);
  if (!source.empty()) seen_as_ = reached_at_ = source;
  lines_->open_line(*leader, effect.leadership, effect.node);
}

void RendezvousNetwork::probe_lines(const effects::ProbeLines& effect) {
  if (lines_) lines_->probe(effect.node);
}

void RendezvousNetwork::begin_store(const effects::BeginStore& effect) {
  successors_ = effect.successors;
  if (!server_) return;
  learn_own_address(effect);
  std::vector<std::string> hosts;
  stop_watching_endpoint();  // it leads
  for (const auto& node : effect.nodes) {
    if (node.link == kSelfLink) continue;  // this machine may connect anyway
    const auto theirs = links_->address_of(node.link);
    const auto ours = links_->own_address_on(node.link);
    // Its own workers may have no way to a virtual address that leads back here.
    if (seen_as_.empty() && ours) seen_as_ = ours->host;
    // Its workers come the way its agent came, unless they are told to meet on another network;
    // from which address they come there nobody here can know.
    const bool same_way = local_address_.empty() || (ours && ours->host == local_address_);
    if (!theirs || !same_way) return server_->begin_round();
    hosts.push_back(theirs->host);
    hosts.push_back(node.host);
  }
  server_->begin_round(hosts);
}

/// Another node on this machine may come by the loopback, which leads to no third one.
void RendezvousNetwork::learn_own_address(const effects::BeginStore& effect) {
  for (const auto& node : effect.nodes) {
    if (node.link == kSelfLink) continue;
    const auto ours = links_->own_address_on(node.link);
    if (!ours) continue;
    reached_at_ = ours->host;
    const bool is_loopback = reached_at_.starts_with("127.") || reached_at_ == "::1";
    if (!is_loopback) return;
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
  if (!local_address_.empty()) return local_address_;
  const std::string source = source_address(master);
  return source.empty() ? reached_at_ : source;
}

}  // namespace ddprun
