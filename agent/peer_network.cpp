#include "agent/peer_network.hpp"

#include "base/log.hpp"
#include "rendezvous/address.hpp"
#include "rendezvous/listener.hpp"
#include "rendezvous/load_mac.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cerrno>
#include <optional>
#include <utility>
#include <variant>

#include <netinet/in.h>
#include <sys/socket.h>

namespace ddprun {
namespace {

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

}  // namespace

PeerNetwork::PeerNetwork(asio::io_context& context, const LaunchPlan& plan, Front& front)
    : context_(context), front_(front), local_address_(plan.meeting.local_address) {}

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
  options.holders = {
      .hold_line = [this](int line) { return front_.hold_line(line); },
      .hold_end = [this](int end) { front_.hold_end(end); },
      .let_go = [this](int descriptor) { front_.let_go(descriptor); }};
  options.on_event = [this](const LifeLines::Event& event) { tell(event); };
  auto lines = LifeLines::open(context_, std::move(options));
  if (!lines) return lines.error();
  lines_ = *std::move(lines);
  return {};
}

Result<void> PeerNetwork::found_or_join(const MeetingPlan& meeting, const Endpoint& endpoint) {
  if (meeting.founds != Founds::kNo) {
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
    if (served) seen_as_ = endpoint.host;
    if (served || meeting.founds == Founds::kYes || !is_taken) return served;
    spdlog::info("{}, unless the job is there, which is joined", served.error().detail);
  }
  founds_ = false;
  return serve_at({.host = "", .port = meeting.listen_port});
}

Result<void> PeerNetwork::serve_at(const Endpoint& endpoint) {
  StoreServerOptions options;
  options.endpoint = endpoint;
  options.pages = [this](std::string_view path) -> std::optional<HttpPage> {
    if (path != "/status") return std::nullopt;
    return status_();
  };
  if (links_) {
    options.for_agents = [this](Protocol protocol, Descriptor socket, const std::string& received) {
      adopt(protocol, std::move(socket), received);
    };
  }
  auto server = StoreServer::listen(context_, options);
  if (!server) return with_context("the store for the workers", server.error());
  server_ = *std::move(server);
  return {};
}

OwnNode PeerNetwork::own_node(std::string host, std::uint64_t chance) const {
  OwnNode own;
  own.host = std::move(host);
  own.chance = chance;
  own.founds = founds_;
  own.listens.host = local_address_;
  if (server_) own.listens.port = server_->port();
  own.master = master_;
  return own;
}

void PeerNetwork::serve_in(TaskScope& tasks) {
  if (server_) tasks.spawn(server_->serve());
  if (links_) tasks.spawn(links_->serve());
  if (lines_) tasks.spawn(lines_->serve());
}

void PeerNetwork::adopt(Protocol protocol, Descriptor socket, const std::string& received) {
  if (protocol == Protocol::kAgent) return links_->adopt(std::move(socket), received);
  lines_->adopt(std::move(socket), received);
}

void PeerNetwork::tell(Links::Event event) {
  if (const auto* connected = std::get_if<Links::Connected>(&event)) {
    on_event_(Peer::Connected{.link = connected->link});
  } else if (auto* const received = std::get_if<Links::Received>(&event)) {
    on_event_(Peer::Received{.link = received->link, .message = std::move(received->message)});
  } else if (const auto* closed = std::get_if<Links::Closed>(&event)) {
    on_event_(Peer::Closed{.link = closed->link, .why = closed->why.detail});
  }
}

void PeerNetwork::tell(const LifeLines::Event& event) {
  if (const auto* opened = std::get_if<LifeLines::LineOpened>(&event)) {
    on_event_(Peer::LineOpened{.node = opened->node, .generation = opened->generation});
  } else if (const auto* ended = std::get_if<LifeLines::LineEnded>(&event)) {
    on_event_(Peer::LineEnded{.node = ended->node});
  } else if (const auto* farewell = std::get_if<LifeLines::Farewell>(&event)) {
    on_event_(Peer::Farewell{.generation = farewell->generation});
  }
}

void PeerNetwork::call(const effects::Call& effect) {
  if (links_) links_->call(effect.link, effect.to);
}

void PeerNetwork::send(const effects::Send& effect) {
  if (links_) links_->send(effect.to, effect.message);
}

void PeerNetwork::close(const effects::Close& effect) {
  if (links_) links_->close(effect.link);
}

void PeerNetwork::open_line(const effects::OpenLine& effect) {
  const auto leader = links_ ? links_->address_of(effect.uplink) : std::nullopt;
  if (!leader) return;
  const std::string source = source_address(*leader);
  if (!source.empty()) seen_as_ = source;
  lines_->open_line(*leader, effect.generation, effect.node);
}

void PeerNetwork::begin_store(const effects::BeginStore& effect) {
  if (!server_) return;
  std::vector<std::string> hosts;
  for (const auto& node : effect.nodes) {
    if (node.link == kSelfLink) continue;  // this machine may connect anyway
    const auto theirs = links_->address_of(node.link);
    const auto ours = links_->own_address_on(node.link);
    // Its workers come the way its agent came, unless they are told to meet on another network;
    // from which address they come there nobody here can know.
    const bool same_way = local_address_.empty() || (ours && ours->host == local_address_);
    if (!theirs || !same_way) return server_->begin_round();
    hosts.push_back(theirs->host);
    hosts.push_back(node.host);
  }
  server_->begin_round(hosts);
}

std::vector<int> PeerNetwork::lines() const {
  return lines_ ? lines_->lines() : std::vector<int>();
}

Endpoint PeerNetwork::master_of_round(const Endpoint& master) const {
  if (!master.host.empty()) return master;
  return {.host = seen_as_.empty() ? "127.0.0.1" : seen_as_, .port = master.port};
}

}  // namespace ddprun
