#include "agent/own_endpoint.hpp"

#include "base/check.hpp"
#include "base/log.hpp"
#include "rendezvous/name_service.hpp"
#include "rendezvous/own_address.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

namespace ddprun {
namespace {

constexpr Duration kOwnNamePatience = std::chrono::seconds(1);  // with the name service

}  // namespace

bool is_at_endpoint(const RendezvousPlan& rendezvous, const std::vector<Address>& addresses) {
  if (own_among(addresses)) return true;
  // Typed on the wrong machine, or with the wrong address, more often than right.
  const bool is_to_host = rendezvous.bootstraps == Bootstraps::kIfItCanBind &&
                          rendezvous.ranks_are_places && rendezvous.node_rank == 0;
  if (is_to_host && !addresses.empty()) {
    const std::string host = rendezvous.endpoint.value_or(Endpoint()).host;
    const std::string number = host_of(addresses.front());
    spdlog::warn(
        "{} is not an address of this machine, which has node rank 0 and is to host the job there; "
        "that serves only if a router or a virtual address leads here, else give an address of "
        "this machine, or another --node-rank",
        host == number ? host : fmt::format("{} ({})", host, number));
  }
  return false;
}

asio::awaitable<std::vector<Address>> resolve_endpoint(const RendezvousPlan& rendezvous) {
  co_await asio::this_coro::throw_if_cancelled(false);
  DDPRUN_CHECK(rendezvous.endpoint.has_value());
  const Endpoint endpoint = rendezvous.endpoint.value_or(Endpoint());
  NameService names;
  const Duration patience = std::min(kOwnNamePatience, rendezvous.join_timeout);
  Timer limit(co_await asio::this_coro::executor, Clock::now() + patience);
  auto addresses = co_await names.look_up(endpoint, limit);
  if (addresses) co_return *std::move(addresses);
  const asio::cancellation_state asked = co_await asio::this_coro::cancellation_state;
  const bool still_wanted = asked.cancelled() == asio::cancellation_type::none;
  if (still_wanted && rendezvous.bootstraps == Bootstraps::kIfItCanBind) {
    spdlog::warn(
        "the endpoint's {}; trying again for {:.0f} s, since this node may be the one to bootstrap "
        "the job",
        addresses.error().detail,
        to_seconds(rendezvous.join_timeout));
  }
  co_return std::vector<Address>();
}

}  // namespace ddprun
