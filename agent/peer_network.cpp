#include "agent/peer_network.hpp"

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

constexpr auto kLookAgainAfter = 300ms;  // where no call has
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
bool may_be_joined_at(std::uint16_t port, const MeetingPlan& meeting) {
  constexpr Duration kPatience = std::chrono::seconds(1);
  const auto owner = owner_of(port);
  if (!owner) return true;
  // No other node may host the job of node rank 0, also none in a container that is hidden from it.
  const bool is_to_host = meeting.ranks_are_places && meeting.node_rank == 0;
  const auto hidden = is_to_host ? IfHidden::kIsNone : IfHidden::kMayBe;
  return may_host_job(*owner, meeting.nodes.max(), hidden, Clock::now() + kPatience);
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

PeerNetwork::PeerNetwork(asio::io_context& context, const LaunchPlan& plan, Front& front)
    : context_(context),
      front_(front),
      plan_(plan),
      look_again_(context, kNever),
      local_address_(plan.meeting.local_address) {}

Result<std::unique_ptr<PeerNetwork>> PeerNetwork::open(
    asio::io_context& context, const LaunchPlan& plan, Front& front) {
  std::unique_ptr<PeerNetwork> network(new PeerNetwork(context, plan, front));
  if (plan.meeting.endpoint) {
    auto opened = network->open_links(plan);
    if (opened) opened = network->found_or_join(plan.meeting, *plan.meeting.endpoint);
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

Result<void> PeerNetwork::open_links(const LaunchPlan& plan) {
  raise_descriptor_limit();  // a link and a life line of each node, if this one is to lead
  const auto mac = load_mac(plan.meeting.secret);
  if (!mac) return mac.error();
  auto links = Links::open(
      context_, {}, [this](Links::Event event) { tell(std::move(event)); }, *mac);
  if (!links) return links.error();
  links_ = *std::move(links);
  LifeLines::Options options;
  options.job = plan.job_among_nodes();
  options.mac = *mac;
  options.trusts_end = plan.meeting.trusts_reset;
  // Whoever is cut off waits for the others for the join timeout, and may begin that anew.
  options.limits.unconfirmed = kLineKept + 2 * plan.meeting.join_timeout;
  options.holders = {
      .hold_line = [this](int line) { return front_.hold_line(line); },
      .hold_end = [this](int end) { front_.hold_end(end); },
      .holds_end = [this](int end) { return front_.holds_end(end); },
      .let_go = [this](int descriptor) { front_.let_go(descriptor); }};
  options.on_event = [this](const LifeLines::Event& event) { tell(event); };
  auto lines = LifeLines::open(context_, std::move(options));
  if (!lines) return lines.error();
  lines_ = *std::move(lines);
  return {};
}

Result<void> PeerNetwork::found_or_join(const MeetingPlan& meeting, const Endpoint& endpoint) {
  const bool may_found = meeting.founds == Founds::kIfItCanBind;
  if (meeting.founds == Founds::kYes || (may_found && meeting.recognizes_endpoint)) {
    auto served = serve_at({.host = "", .port = endpoint.port});
    for (const std::uint16_t port : meeting.other_ports) {
      if (served || !served.error().is(Errc::kIo)) break;
      spdlog::info("{}; port {} is tried", served.error().detail, port);
      served = serve_at({.host = "", .port = port});
    }
    // Where the port is taken, by another node of the job on this machine for one, that one founds.
    const bool is_taken = !served && served.error().is(Errc::kIo);
    if (is_taken && !meeting.other_ports.empty()) {
      served = make_error(
          Errc::kIo,
          fmt::format(
              "ports {} and {} of this job's id are all taken; see by whom (ss -tlnp), or give "
              "--master-port",
              endpoint.port,
              fmt::join(meeting.other_ports, ", ")));
    }
    if (served && meeting.recognizes_endpoint) seen_as_ = endpoint.host;
    const bool is_only_port = meeting.other_ports.empty();
    const bool is_one_place = meeting.ranks_are_places && meeting.node_rank == 0 && !is_only_port;
    if (served || !is_taken) return served;
    const bool is_to_host = meeting.founds == Founds::kYes || is_one_place;
    const bool is_another_program = is_only_port && !may_be_joined_at(endpoint.port, meeting);
    if (is_to_host || is_another_program) return refuse_others(meeting, endpoint, served.error());
    spdlog::info("{}, unless the job is there, which is joined", served.error().detail);
    cannot_listen_ = served.error().detail;
    has_told_taken_ = true;
  }
  founds_ = false;
  looks_ = may_found;
  links_->tell_addresses(looks_);
  if (looks_) {
    auto watch = AddressWatch::open(context_, [this] { consider_hosting(); });
    if (watch) watch_ = *std::move(watch);
  }
  if (may_found && !meeting.recognizes_endpoint && meeting.node_rank == 0) {
    const auto served = listen_at_endpoint(meeting, endpoint);
    hosts_if_called_ = served.has_value();
    if (served) return {};
    spdlog::info("{}; it is not hosted here", served.error().detail);
  }
  return serve_at({.host = "", .port = meeting.listen_port});
}

/// The endpoint cannot be here. Where there is a place for it the others are told so, who would
/// wait for it; else this node ends.
Result<void> PeerNetwork::refuse_others(
    const MeetingPlan& meeting, const Endpoint& endpoint, const Error& why) {
  for (const std::uint16_t port : meeting.refusal_ports) {
    if (!serve_at({.host = "", .port = port})) continue;
    founds_ = false;
    cannot_host_ = why.detail;
    if (const auto owner = owner_of(endpoint.port)) held_by_ = owner->inodes;
    return {};
  }
  return why;
}

/// Once the program that had the port is gone, the others are not told of it: whoever has stopped
/// it starts this node again, and that one has the port.
bool PeerNetwork::is_endpoint_still_held() const {
  const std::uint16_t port = plan_.meeting.endpoint.value_or(Endpoint()).port;
  const auto owner = owner_of(port);
  if (!owner) return held_by_.empty() && !listen_on({.host = "", .port = port});
  return std::ranges::find_first_of(owner->inodes, held_by_) != owner->inodes.end();
}

/// Listens where the others look for the first leader, on top of what it listens on. Yields the
/// port.
Result<std::uint16_t> PeerNetwork::listen_at_endpoint(
    const MeetingPlan& meeting, const Endpoint& endpoint) {
  std::vector<std::uint16_t> ports = {endpoint.port};
  ports.insert(ports.end(), meeting.other_ports.begin(), meeting.other_ports.end());
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
void PeerNetwork::consider_hosting() {
  const Endpoint endpoint = plan_.meeting.endpoint.value_or(Endpoint());
  if (!looks_ || !own_among(endpoint_at_)) return;
  Result<std::uint16_t> port = server_->port();
  if (!hosts_if_called_) port = listen_at_endpoint(plan_.meeting, endpoint);
  if (!port) {
    if (!std::exchange(has_told_taken_, true)) {
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
  stop_looking();
  seen_as_ = endpoint.host;
  if (plan_.shared_store) master_.port = *port;
  on_event_(
      Peer::BecameHost{.listens = {.host = local_address_, .port = *port}, .master = master_});
}

/// A call that hangs at a stale address would hold up the look at the name's new one.
asio::awaitable<void> PeerNetwork::look_again() {
  co_await asio::this_coro::throw_if_cancelled(false);
  const Endpoint endpoint = plan_.meeting.endpoint.value_or(Endpoint());
  look_again_.expires_at(Clock::now() + kLookAgainAfter);
  while (looks_) {
    const auto [re_armed] = co_await look_again_.async_wait(kTuple);
    if (!re_armed) {
      Timer limit(context_, Clock::now() + kNamePatience);
      auto addresses = co_await names_.look_up(endpoint, limit);
      if (addresses) {
        endpoint_at_ = *std::move(addresses);
        consider_hosting();
      }
      look_again_.expires_at(Clock::now() + kLookAgainAfter);
    }
    const asio::cancellation_state asked = co_await asio::this_coro::cancellation_state;
    if (asked.cancelled() != asio::cancellation_type::none) co_return;
  }
}

void PeerNetwork::stop_looking() {
  looks_ = false;
  if (links_) links_->tell_addresses(false);
  look_again_.expires_at(Clock::now());
  if (watch_) watch_->stop();
}

Result<void> PeerNetwork::serve_at(const Endpoint& endpoint) {
  StoreServerOptions options;
  options.endpoint = endpoint;
  options.pages = [this](std::string_view path) -> std::optional<HttpPage> {
    if (path != "/status") return std::nullopt;
    return status_();
  };
  // Not amid what the server does for that client: the round may end by what follows.
  options.on_client = [this] { asio::post(context_, [this] { on_event_(Peer::StoreReached{}); }); };
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

OwnNode PeerNetwork::own_node(std::string host, std::uint64_t chance) const {
  OwnNode own;
  own.host = std::move(host);
  own.chance = chance;
  own.started_ms = std::chrono::duration_cast<std::chrono::milliseconds>(
                       std::chrono::system_clock::now().time_since_epoch())
                       .count();
  own.founds = founds_;
  own.hosts_if_called = hosts_if_called_;
  own.cannot_host = cannot_host_;
  own.cannot_listen = cannot_listen_;
  own.took_part = front_.took_part();
  own.meets_by_name = has_name();
  own.listens.host = local_address_;
  if (server_) own.listens.port = server_->port();
  own.master = master_;
  own.machine = own_machine();
  if (links_) own.survivors = advertised(advertised_job());
  return own;
}

AdvertisedJob PeerNetwork::advertised_job() const {
  return {
      .id = plan_.job_among_nodes(),
      .meets_at = plan_.meeting.endpoint.value_or(Endpoint()),
      .program = plan_.command.name,
      .role = plan_.role};
}

void PeerNetwork::advertise() {
  if (!links_ || !server_ || advertisement_) return;
  Endpoint at{
      .host = local_address_.empty() ? reached_at_ : local_address_, .port = server_->port()};
  if (!numeric_address(at)) at.host = "127.0.0.1";
  auto made = ddprun::advertise(advertised_job(), at);
  if (!made) return spdlog::info("{}", made.error().detail);
  advertisement_ = *std::move(made);
}

/// Whether a name service says where the endpoint is.
bool PeerNetwork::has_name() const {
  const auto& endpoint = plan_.meeting.endpoint;
  return endpoint && !numeric_address(*endpoint) && endpoint->host != "localhost";
}

void PeerNetwork::serve_in(TaskScope& tasks) {
  if (server_) tasks.spawn(server_->serve());
  if (links_) tasks.spawn(links_->serve());
  if (watch_) tasks.spawn(watch_->serve());
  if (looks_ && has_name()) tasks.spawn(look_again());
  if (lines_) tasks.spawn(lines_->serve());
}

void PeerNetwork::adopt(Protocol protocol, Descriptor socket, const std::string& received) {
  if (protocol == Protocol::kAgent) return links_->adopt(std::move(socket), received);
  lines_->adopt(std::move(socket), received);
}

void PeerNetwork::tell(Links::Event event) {
  if (auto* const resolved = std::get_if<Links::Resolved>(&event)) {
    const Endpoint endpoint = plan_.meeting.endpoint.value_or(Endpoint());
    if (resolved->to.host != endpoint.host) return;
    endpoint_at_ = std::move(resolved->addresses);
    look_again_.expires_at(Clock::now() + kLookAgainAfter);
    consider_hosting();
  } else if (const auto* connected = std::get_if<Links::Connected>(&event)) {
    on_event_(Peer::Connected{.link = connected->link});
  } else if (auto* const received = std::get_if<Links::Received>(&event)) {
    if (!cannot_host_.empty() && !is_endpoint_still_held()) return links_->close(received->link);
    on_event_(Peer::Received{.link = received->link, .message = std::move(received->message)});
  } else if (const auto* closed = std::get_if<Links::Closed>(&event)) {
    on_event_(Peer::Closed{
        .link = closed->link, .why = closed->why.detail, .is_foreign = closed->is_foreign});
  }
}

void PeerNetwork::tell(const LifeLines::Event& event) {
  if (const auto* opened = std::get_if<LifeLines::LineOpened>(&event)) {
    on_event_(Peer::LineOpened{.node = opened->node, .leadership = opened->leadership});
  } else if (const auto* ended = std::get_if<LifeLines::LineEnded>(&event)) {
    on_event_(Peer::LineEnded{.node = ended->node});
  } else if (const auto* farewell = std::get_if<LifeLines::Farewell>(&event)) {
    on_event_(Peer::Farewell{.leadership = farewell->leadership});
  }
}

void PeerNetwork::call(const effects::Call& effect) {
  if (links_) links_->call(effect.link, effect.to);
}

void PeerNetwork::send(const effects::Send& effect) {
  if (links_) links_->send(effect.to, effect.message);
}

void PeerNetwork::send_written() {
  if (links_) links_->send_written();
}

void PeerNetwork::close(const effects::Close& effect) {
  if (links_) links_->close(effect.link);
}

void PeerNetwork::open_line(const effects::OpenLine& effect) {
  stop_looking();
  auto leader = links_ ? links_->address_of(effect.uplink) : std::nullopt;
  if (!leader) return;
  // Past a virtual address, which may lead elsewhere by the time that the line is needed.
  if (numeric_address(effect.leader)) leader = effect.leader;
  const std::string source = source_address(*leader);
  if (!source.empty()) seen_as_ = reached_at_ = source;
  lines_->open_line(*leader, effect.leadership, effect.node);
}

void PeerNetwork::probe_lines(const effects::ProbeLines& effect) {
  if (lines_) lines_->probe(effect.node);
}

void PeerNetwork::begin_store(const effects::BeginStore& effect) {
  successors_ = effect.successors;
  if (!server_) return;
  learn_own_address(effect);
  std::vector<std::string> hosts;
  stop_looking();  // it leads
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
void PeerNetwork::learn_own_address(const effects::BeginStore& effect) {
  for (const auto& node : effect.nodes) {
    if (node.link == kSelfLink) continue;
    const auto ours = links_->own_address_on(node.link);
    if (!ours) continue;
    reached_at_ = ours->host;
    const bool is_loopback = reached_at_.starts_with("127.") || reached_at_ == "::1";
    if (!is_loopback) return;
  }
}

std::vector<int> PeerNetwork::lines_for_workers() {
  if (!lines_) return {};
  auto lines = lines_->lines();
  const auto ends = lines_->hold_ends(successors_);
  lines.insert(lines.end(), ends.begin(), ends.end());
  return lines;
}

Endpoint PeerNetwork::master_of_round(const Endpoint& master) const {
  if (!master.host.empty()) return master;
  return {.host = seen_as_.empty() ? "127.0.0.1" : seen_as_, .port = master.port};
}

std::string PeerNetwork::own_address(const Endpoint& master) const {
  if (!local_address_.empty()) return local_address_;
  const std::string source = source_address(master);
  return source.empty() ? reached_at_ : source;
}

}  // namespace ddprun
