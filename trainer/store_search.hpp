#pragma once

// How ranks find their store where no agent hosts it: rank 0 does, at MASTER_PORT, or, where
// Slurm's job id says no more than where to begin, at the first port of a few that is free. A job
// of the same machine may have had the same luck, so the others ask each store for the mark of
// their own.

#include "base/descriptor.hpp"
#include "base/endpoint.hpp"
#include "base/error.hpp"
#include "base/time.hpp"
#include "trainer/core/worker_place.hpp"

#include <cstdint>

namespace ddprun {

/// A listening socket, close-on-exec.
struct StoreDoor {
  Descriptor socket;
  std::uint16_t port = 0;
};

/// Rank 0: listens on all addresses, at the first port that is free of those where the others look.
/// Fails with kPeerLost if there is none, naming them. REQUIRES: place.store.
Result<StoreDoor> open_store_door(const WorkerPlace& place);

/// Another rank: where the store with the mark is. Asks again until `deadline`, since rank 0 may
/// come last. Fails with kPeerLost: the host is unknown, or no store has the mark by then.
/// REQUIRES: place.store and place.search.
Result<Endpoint> find_store(const WorkerPlace& place, TimePoint deadline);

}  // namespace ddprun
