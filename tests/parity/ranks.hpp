#pragma once

// Ranks as threads of one process, with a real Gloo group each.

#include "trainer/process_group.hpp"

#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

#include <cstdlib>
#include <functional>
#include <thread>
#include <vector>

namespace ddprun {

template <class Gloo = c10d::ProcessGroupGloo>
ProcessGroup make_group(const c10::intrusive_ptr<c10d::Store>& store, int rank, int world) {
  constexpr auto kGloo = c10d::ProcessGroup::BackendType::GLOO;
  auto backend = c10::make_intrusive<Gloo>(
      store, rank, world, c10d::ProcessGroupGloo::Options::create_default());
  auto group = c10::make_intrusive<c10d::ProcessGroup>(store, rank, world);
  group->setBackend(c10::kCPU, kGloo, backend);
  group->setDefaultBackend(kGloo);
  return group;
}

/// torch's flight recorder, one for the whole process, keeps a map that groups of several threads
/// write to at once (2.11): it is switched off before main() starts a thread.
inline const int kFlightRecorderIsOff =
    ::setenv("TORCH_FR_BUFFER_SIZE", "0", 1);  // NOLINT(concurrency-mt-unsafe)

/// Runs `of_rank` once for each rank, at the same time.
template <class Gloo = c10d::ProcessGroupGloo>
void run_ranks(int world, const std::function<void(int, const ProcessGroup&)>& of_rank) {
  const c10::intrusive_ptr<c10d::Store> store = c10::make_intrusive<c10d::HashStore>();
  std::vector<std::thread> ranks;
  ranks.reserve(static_cast<std::size_t>(world));
  for (int rank = 0; rank < world; ++rank) {
    ranks.emplace_back([&, rank] { of_rank(rank, make_group<Gloo>(store, rank, world)); });
  }
  for (std::thread& rank : ranks) {
    rank.join();
  }
}

}  // namespace ddprun
