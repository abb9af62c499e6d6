#include "agent/node_port.hpp"

#include "agent/core/listen_addresses.hpp"
#include "base/log.hpp"
#include "rendezvous/own_address.hpp"
#include "rendezvous/port_owner.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <optional>

namespace ddprun {
namespace {

constexpr char kLoopback[] = "127.0.0.1";

std::vector<Address> as_addresses(const std::vector<std::string>& hosts) {
  std::vector<Address> addresses;
  for (const std::string& host : hosts) {
    if (const auto address = numeric_address({.host = host, .port = 0}))
      addresses.push_back(*address);
  }
  return addresses;
}

}  // namespace

Error used_by(const PortOwner& owner, std::uint16_t port) {
  return make_error(
      Errc::kIo,
      fmt::format(
          "port {} is used by {}; stop that program, or choose another port (--rdzv-endpoint, "
          "--master-port)",
          port,
          owner.to_string()));
}

NodePort::NodePort(
    asio::io_context& context, const RendezvousPlan& rendezvous, StoreServerOptions serving)
    : context_(context),
      rendezvous_(rendezvous),
      serving_(std::move(serving)),
      ends_(own_ends(as_addresses(rendezvous.endpoint_addresses))) {}

Result<void> NodePort::listen_alone(const Endpoint& master) {
  ListenAddresses where;
  if (rendezvous_.bind.to != BindPlan::To::kAll) where.hosts.push_back(master.host);
  if (rendezvous_.bind.to == BindPlan::To::kAddress)
    where.hosts.push_back(rendezvous_.bind.address);
  return listen(where, master.port);
}

Result<void> NodePort::listen_at_endpoint(std::uint16_t port) {
  const ListenAddresses where = at_endpoint(rendezvous_, ends_);
  auto listens = listen(where, port);
  if (!listens) return listens;
  endpoint_port_ = port;
  if (!where.missed.empty()) {
    spdlog::warn(
        "--bind: the other nodes look for this one at {}, but it listens only at {}; leave --bind "
        "out, or give that address",
        fmt::join(where.missed, ", "),
        fmt::join(where.hosts, ", "));
  }
  if (!where.why_all.empty()) {
    spdlog::warn(
        "{}, so which network the other nodes use is not known: ddprun listens on all of them; "
        "--bind ADDRESS names one",
        where.why_all);
  }
  return {};
}

Result<void> NodePort::listen_for_later(std::uint16_t port) {
  const ListenAddresses where = before_any_call(rendezvous_);
  if (where.hosts.empty()) return listen(where, port);
  // So that it is free at the addresses that come later, too.
  auto reserved = reserve_port(port);
  if (!reserved) {
    const auto owner = port == 0 ? std::nullopt : owner_of(port, kOwnerPatience);
    return owner ? used_by(*owner, port) : reserved.error();
  }
  reserved_ = *std::move(reserved);
  return listen(where, port_of(reserved_.get()));
}

void NodePort::called_from(const std::string& host) {
  if (!server_ || !follows_calls(rendezvous_) || host.empty()) return;
  const auto listens = listen_at({.host = host, .port = server_->port()});
  if (listens || !unreached_.is_first(host)) return;
  spdlog::warn(
      "{}; if this node is to lead later, the others cannot reach it there",
      listens.error().detail);
}

void NodePort::endpoint_is_at(const std::vector<Address>& addresses) {
  ends_ = own_ends(addresses);
  if (endpoint_port_ == 0) return;
  const ListenAddresses where = at_endpoint(rendezvous_, ends_);
  if (where.hosts.empty()) return;  // as at the beginning
  const auto listens = listen(where, endpoint_port_);
  if (!listens) spdlog::info("{}", listens.error().detail);
}

/// At all of `where`, or an error.
Result<void> NodePort::listen(const ListenAddresses& where, std::uint16_t port) {
  const std::vector<std::string> all = {""};
  const bool is_first = server_ == nullptr;
  for (const std::string& host : where.hosts.empty() ? all : where.hosts) {
    const std::uint16_t chosen = is_first && server_ ? server_->port() : port;
    auto listens = listen_at({.host = host, .port = chosen});
    if (listens) continue;
    if (is_first) server_.reset();
    return listens;
  }
  if (where.hosts.empty() || !where.at_loopback) return {};
  const std::uint16_t chosen = is_first ? server_->port() : port;
  const auto listens = listen_at({.host = kLoopback, .port = chosen});
  // Another job's, perhaps; or a network namespace whose loopback is down.
  if (!listens) spdlog::debug("{}", listens.error().detail);
  return {};
}

/// Does nothing if it listens there already.
Result<void> NodePort::listen_at(const Endpoint& place) {
  if (!server_) {
    auto listens = begin(place);
    if (!listens) return listens;
    places_ = {{place.host, server_->port()}};
    return {};
  }
  if (places_.contains({"", place.port}) || places_.contains({place.host, place.port})) return {};
  auto listens = server_->listen_too(place);
  if (listens) places_.emplace(place.host, place.port);
  return listens;
}

/// Listens for the first time.
Result<void> NodePort::begin(const Endpoint& place) {
  StoreServerOptions options = serving_;
  options.endpoint = place;
  auto server = StoreServer::listen(context_, options);
  if (!server && server.error().is(Errc::kIo)) {
    if (const auto owner = owner_of(place.port, kOwnerPatience)) return used_by(*owner, place.port);
    server = StoreServer::listen(context_, options);  // the program that had the port has ended
  }
  if (!server) return with_context("the store for the workers", server.error());
  server_ = *std::move(server);
  return {};
}

}  // namespace ddprun
