#include "trainer/process_group.hpp"

#include "base/standard_streams.hpp"
#include "base/time.hpp"
#include "trainer/store_search.hpp"

#include <c10/util/Exception.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace ddprun {
namespace {

using StorePointer = c10::intrusive_ptr<c10d::Store>;

/// Rank 0's store at `host`, if no agent hosts one.
Result<StorePointer> host_store(
    const WorkerPlace& place, const std::string& host, c10d::TCPStoreOptions options) {
  auto door = open_store_door(place);
  if (!door) return door.error();
  options.port = door->port;
  options.isServer = true;
  options.masterListenFd = door->socket.release();  // the store closes it
  StorePointer store = c10::make_intrusive<c10d::TCPStore>(host, options);
  if (place.search) store->set(place.search->mark, std::vector<std::uint8_t>{'1'});
  return store;
}

Result<StorePointer> open_store(const WorkerPlace& place) {
  if (!place.store) return StorePointer(c10::make_intrusive<c10d::HashStore>());
  const auto& address = *place.store;
  c10d::TCPStoreOptions options;
  options.port = address.port;
  options.numWorkers = place.world;
  // Gloo waits for the addresses of all peers anyway.
  options.waitWorkers = false;
  if (!place.agent_store && place.rank == 0) return host_store(place, address.host, options);
  if (place.search) {
    const auto found = find_store(place, Clock::now() + options.timeout);
    if (!found) return found.error();
    options.port = found->port;
  }
  StorePointer store = c10::make_intrusive<c10d::TCPStore>(address.host, options);
  if (!place.agent_store) return store;
  // If the agent's store outlives a restart (torchrun's does), each attempt needs new keys; the
  // name is that of torch.distributed's env:// rendezvous.
  return StorePointer(c10::make_intrusive<c10d::PrefixStore>(
      fmt::format("/worker/attempt_{}", place.attempt), std::move(store)));
}

std::vector<std::string> keys_of_ranks(const char* what, int world) {
  std::vector<std::string> keys;
  keys.reserve(static_cast<std::size_t>(world));
  for (int rank = 0; rank < world; ++rank)
    keys.push_back(fmt::format("{}/{}", what, rank));
  return keys;
}

/// The ranks whose key does not exist.
std::vector<int> missing_ranks(c10d::Store& store, const std::vector<std::string>& keys) {
  std::vector<int> missing;
  for (std::size_t rank = 0; rank < keys.size(); ++rank) {
    if (!store.check({keys[rank]})) missing.push_back(static_cast<int>(rank));
  }
  return missing;
}

/// Waits until all ranks have started. Gloo would wait only as long as a collective may take.
Result<void> await_all(c10d::Store& store, const WorkerPlace& place) {
  constexpr std::chrono::milliseconds kTold = std::chrono::seconds(30);
  const auto keys = keys_of_ranks("ddptrain_begun", place.world);
  store.set(keys[static_cast<std::size_t>(place.rank)], std::vector<std::uint8_t>{'1'});
  const auto deadline = Clock::now() + kStartTimeout;
  for (;;) {
    try {
      store.wait(keys, kTold);
      return {};
    } catch (const c10::DistStoreError&) {  // in time
      const auto missing = missing_ranks(store, keys);
      const std::string text = fmt::format(
          "rank {} of {} ha{} not started",
          fmt::join(missing, ", "),
          place.world,
          missing.size() == 1 ? "s" : "ve");
      if (Clock::now() >= deadline) {
        return make_error(
            Errc::kPeerLost, fmt::format("{} within {} s", text, to_seconds(kStartTimeout)));
      }
      if (place.rank == 0 && !missing.empty())
        write_stderr(fmt::format("ddptrain: waiting: {}\n", text));
    }
  }
}

/// The input of ranks_that_keep_others_waiting(). A process is one rank, except in tests.
struct Joined {
  StorePointer store;
  int rank = 0;
  int world = 1;
  std::chrono::milliseconds timeout{};
};

std::optional<Joined>& joined() {
  static std::optional<Joined> joined;
  return joined;
}

}  // namespace

std::vector<int> ranks_that_keep_others_waiting() {
  constexpr std::chrono::milliseconds kGraceMin = std::chrono::seconds(1);
  constexpr std::chrono::milliseconds kGraceMax = std::chrono::seconds(10);
  const std::optional<Joined>& known = joined();
  if (!known) return {};
  const auto& [store, rank, world, timeout] = *known;
  const auto keys = keys_of_ranks("ddptrain_waits", world);
  try {
    store->set(keys[static_cast<std::size_t>(rank)], std::vector<std::uint8_t>{'1'});
    // Other ranks may have entered the collective a little later, so their timeout ends later.
    std::this_thread::sleep_for(std::clamp(timeout / 10, kGraceMin, kGraceMax));
    return missing_ranks(*store, keys);
  } catch (const std::exception&) {
    return {};
  }
}

Result<ProcessGroup> make_process_group(
    const WorkerPlace& place, std::chrono::milliseconds timeout) {
  constexpr auto kGloo = c10d::ProcessGroup::BackendType::GLOO;
  auto opened = open_store(place);
  if (!opened) return opened.error();
  const StorePointer store =
      c10::make_intrusive<c10d::PrefixStore>("default_pg", *std::move(opened));
  if (place.world > 1) {
    joined() = Joined{.store = store, .rank = place.rank, .world = place.world, .timeout = timeout};
    const auto come = await_all(*store, place);
    if (!come) return come.error();
  }
  // create_default() honours GLOO_SOCKET_IFNAME; plain create() sets no device.
  auto backend = c10::make_intrusive<c10d::ProcessGroupGloo>(
      store, place.rank, place.world, c10d::ProcessGroupGloo::Options::create_default(timeout));
  auto group = c10::make_intrusive<c10d::ProcessGroup>(store, place.rank, place.world);
  group->setBackend(c10::kCPU, kGloo, backend);
  group->setDefaultBackend(kGloo);
  // Never destroyed: peers treat its closed sockets as the loss of this rank, but a failing rank
  // must report why first.
  static_cast<void>(new ProcessGroup(group));  // NOLINT(cppcoreguidelines-owning-memory)
  return group;
}

}  // namespace ddprun
