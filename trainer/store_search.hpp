#pragma once

// How ranks find their store if no agent hosts it: rank 0 hosts it at MASTER_PORT, or, if
// Slurm's job id only gives a starting point, at the first free port of a few. A job on the same
// machine may use the same ports, so the other ranks check each store for the mark of their own
// job.

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

/// Rank 0: listens on all addresses, on the first candidate port that is free. Fails with kPeerLost
/// if there is none, naming them. REQUIRES: place.store.
Result<StoreDoor> open_store_door(const WorkerPlace& place);

/// Another rank: the address of the store with the mark. Tries again until `deadline`, since rank 0
/// may start last. Fails with kPeerLost: the host is unknown, or no store has the mark by then.
/// REQUIRES: place.store and place.search.
Result<Endpoint> find_store(const WorkerPlace& place, TimePoint deadline);

}  // namespace ddprun
