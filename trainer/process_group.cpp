#include "trainer/process_group.hpp"

#include "base/time.hpp"
#include "trainer/store_search.hpp"

#include <fmt/format.h>
#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include <cstdint>
#include <utility>
#include <vector>

namespace ddprun {
namespace {

using StorePointer = c10::intrusive_ptr<c10d::Store>;

/// Rank 0's at `host`, where no agent hosts one.
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
  // Where the agent's store outlives a restart (torchrun's does), the keys of each attempt must be
  // new ones; the name is that of torch.distributed's env:// rendezvous.
  return StorePointer(c10::make_intrusive<c10d::PrefixStore>(
      fmt::format("/worker/attempt_{}", place.attempt), std::move(store)));
}

}  // namespace

Result<ProcessGroup> make_process_group(
    const WorkerPlace& place, std::chrono::milliseconds timeout) {
  constexpr auto kGloo = c10d::ProcessGroup::BackendType::GLOO;
  auto opened = open_store(place);
  if (!opened) return opened.error();
  const StorePointer store =
      c10::make_intrusive<c10d::PrefixStore>("default_pg", *std::move(opened));
  // create_default honours GLOO_SOCKET_IFNAME; plain create() has no device at all.
  auto backend = c10::make_intrusive<c10d::ProcessGroupGloo>(
      store, place.rank, place.world, c10d::ProcessGroupGloo::Options::create_default(timeout));
  auto group = c10::make_intrusive<c10d::ProcessGroup>(store, place.rank, place.world);
  group->setBackend(c10::kCPU, kGloo, backend);
  group->setDefaultBackend(kGloo);
  // Never given back: peers take its closed sockets for the loss of this rank, and a rank that
  // fails has to say why before they do.
  static_cast<void>(new ProcessGroup(group));  // NOLINT(cppcoreguidelines-owning-memory)
  return group;
}

}  // namespace ddprun
