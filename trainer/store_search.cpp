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

// For one port: a stranger may listen there and never say a word.
constexpr Duration kPatience = 1s;
// Between two rounds of all ports, each of which may answer at once. Nobody tells when a port of
// another machine begins to listen, so it has to be asked.
constexpr Duration kPause = 100ms;

/// Where the store may be, the likeliest first.
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
          "rank 0 can host no store at port {} ({}); set MASTER_PORT to one that is free",
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
          "no store of this job at {}, port {} ({}); see what rank 0 says, or set MASTER_ADDR and "
          "MASTER_PORT",
          place.store->host,
          fmt::join(place.search->ports, ", "),
          why));
}

}  // namespace ddprun
