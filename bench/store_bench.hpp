#pragma once

// The load generator: many connections driven from one thread, against any server that speaks the
// c10d TCPStore protocol.

#include "base/error.hpp"
#include "bench/store_workload.hpp"

namespace ddprun {

/// Runs the load and prints what it took. Fails with kPeerLost, kTimedOut or kProtocol if the
/// server does not play along.
Result<void> bench_store(const StoreBenchOptions& options);

}  // namespace ddprun
