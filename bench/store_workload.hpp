#pragma once

// The bytes of the load generator: what a batch of a workload sends, and how long its answer is.

#include "bench/store_bench.hpp"

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun {

/// What one client sends at once, again and again.
struct StoreBatch {
  std::string requests;
  std::size_t reply_bytes = 0;
  int operations = 0;  // in it
};

/// What a client sends first, and the size of the answer: the handshake, and its keys.
StoreBatch opening_of(StoreWorkload workload, int client);

/// `operations` of `workload` in a row. REQUIRES: neither kWaitFanout nor kGloo.
StoreBatch batch_of(StoreWorkload workload, int client, int operations);

/// WAIT for the key of `round` and a PING, whose answer shows that the WAIT was seen.
StoreBatch fanout_wait(std::int64_t round);

/// The SET that ends `round`, and removes the key of the round before.
StoreBatch fanout_set(std::int64_t round);

/// What a worker asks of the store while Gloo connects all `workers`, one request after the other:
/// it publishes its addresses, then waits twice for those of each worker and gets them, as
/// torch 2.11 does. REQUIRES: 0 <= step < gloo_steps(workers).
StoreBatch gloo_step(int workers, int worker, std::int64_t step);
std::int64_t gloo_steps(int workers);

/// The name of a workload on the command line, and back. Fails with kInvalidArgument if there is no
/// such workload.
std::string_view name_of(StoreWorkload workload);
Result<StoreWorkload> workload_of(std::string_view name);
std::vector<std::string> workload_names();

}  // namespace ddprun
