#include "trainer/store_search.hpp"

#include "base/check.hpp"
#include "rendezvous/listener.hpp"
#include "rendezvous/store_client.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace ddprun {
namespace {

using namespace std::chrono_literals;

// For one port: another program may listen there and never reply.
constexpr Duration kPatience = 1s;
// Between two rounds of all ports, each of which may answer immediately. There is no notification
// when a port of another machine begins to listen, so it must be polled.
constexpr Duration kPause = 100ms;

/// The candidate ports of the store, the likeliest first.
std::vector<std::uint16_t> ports_of(const WorkerPlace& place) {
  if (place.search) return place.search->ports;
  return {place.store.value_or(Endpoint()).port};
}

/// Whether `mark` is in the store at `endpoint`.
Result<bool> has_mark(const Endpoint& endpoint, const std::string& mark, TimePoint deadline) {
  const auto limit = std::min(deadline, Clock::now() + kPatience);
  auto store = StoreClient::connect(endpoint, limit);
  if (!store) return store.error();
  return store->has(mark, Clock::now() + kPatience);
}

}  // namespace

Result<StoreDoor> open_store_door(const WorkerPlace& place) {
  DDPRUN_CHECK(place.store.has_value());
  const std::vector<std::uint16_t> ports = ports_of(place);
  std::string why;
  for (const std::uint16_t port : ports) {
    auto sockets = listen_on({.host = "", .port = port});
    if (!sockets) {
      why = sockets.error().detail;
      continue;
    }
    Descriptor& socket = sockets->front();
    const std::uint16_t taken = port_of(socket.get());
    return StoreDoor{.socket = std::move(socket), .port = taken};
  }
  return make_error(
      Errc::kPeerLost,
      fmt::format(
          "rank 0 cannot host a store on port {} ({}); set MASTER_PORT to a free port",
          fmt::join(ports, ", "),
          why));
}

Result<Endpoint> find_store(const WorkerPlace& place, TimePoint deadline) {
  DDPRUN_CHECK(place.store.has_value() && place.search.has_value());
  std::string why;
  do {
    for (const std::uint16_t port : place.search->ports) {
      Endpoint candidate{.host = place.store->host, .port = port};
      const auto found = has_mark(candidate, place.search->mark, deadline);
      if (found && *found) return candidate;
      why = found ? "a store of another job" : found.error().detail;
      if (!found && found.error().is(Errc::kInvalidArgument)) {
        return make_error(
            Errc::kPeerLost, why + "; set MASTER_ADDR to an address of the host of rank 0");
      }
    }
    std::this_thread::sleep_for(kPause);
  } while (Clock::now() < deadline);
  return make_error(
      Errc::kPeerLost,
      fmt::format(
          "no store of this job at {}, port {} ({}); check the output of rank 0, or set "
          "MASTER_ADDR and "
          "MASTER_PORT",
          place.store->host,
          fmt::join(place.search->ports, ", "),
          why));
}

}  // namespace ddprun
