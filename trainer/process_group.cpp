#include "trainer/process_group.hpp"

#include <fmt/format.h>
#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

namespace ddprun {
namespace {

using StorePointer = c10::intrusive_ptr<c10d::Store>;

StorePointer open_store(const WorkerPlace& place) {
  if (!place.store) return c10::make_intrusive<c10d::HashStore>();
  c10d::TCPStoreOptions options;
  options.port = place.store->port;
  options.isServer = !place.agent_store && place.rank == 0;
  options.numWorkers = place.world;
  // Gloo waits for the addresses of all peers anyway.
  options.waitWorkers = false;
  StorePointer store = c10::make_intrusive<c10d::TCPStore>(place.store->host, options);
  if (!place.agent_store) return store;
  // Where the agent's store outlives a restart (torchrun's does), the keys of each attempt must be
  // new ones; the name is that of torch.distributed's env:// rendezvous.
  return c10::make_intrusive<c10d::PrefixStore>(
      fmt::format("/worker/attempt_{}", place.attempt), std::move(store));
}

}  // namespace

ProcessGroup make_process_group(const WorkerPlace& place) {
  constexpr auto kGloo = c10d::ProcessGroup::BackendType::GLOO;
  const StorePointer store =
      c10::make_intrusive<c10d::PrefixStore>("default_pg", open_store(place));
  // create_default honours GLOO_SOCKET_IFNAME; plain create() has no device at all.
  auto backend = c10::make_intrusive<c10d::ProcessGroupGloo>(
      store, place.rank, place.world, c10d::ProcessGroupGloo::Options::create_default());
  auto group = c10::make_intrusive<c10d::ProcessGroup>(store, place.rank, place.world);
  group->setBackend(c10::kCPU, kGloo, backend);
  group->setDefaultBackend(kGloo);
  return group;
}

}  // namespace ddprun
