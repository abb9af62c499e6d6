#pragma once

// A load on a store: what is asked for, and its bytes: what a batch sends, and how long its
// answer is.

#include "base/endpoint.hpp"
#include "base/error.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <sys/types.h>

namespace ddprun {

/// What one operation is. Every client has keys of its own.
enum class StoreWorkload : std::uint8_t {
  kPing,
  kSet,  // of 32 bytes; a PING ends each batch, as SET has no reply
  kGet,  // of 32 bytes
  kAdd,
  kCheck,       // of one key
  kMultiGet,    // of 128 keys of 32 bytes
  kMultiSet,    // of 128 pairs of 32 bytes; a PING ends each batch
  kSet64k,      // of 64 KiB; a PING ends each batch
  kGet64k,      // of 64 KiB
  kValue64k,    // SET and GET of 64 KiB
  kWaitFanout,  // all clients WAIT for one key; when all are known to wait, one SET frees them
  kGloo,  // what as many workers ask while Gloo connects each with each; `operations` follow from
          // it
};

struct StoreBenchOptions {
  Endpoint endpoint;
  int clients = 1;
  std::int64_t operations = 100'000;  // in all; not of kGloo
  int depth = 1;                      // requests that a client sends before it reads; not of kGloo
  StoreWorkload workload = StoreWorkload::kGet;
  std::optional<pid_t> server_pid;
  bool json = false;
};

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
