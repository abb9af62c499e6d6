#pragma once

// The load generator: many connections driven from one thread, against any server that speaks the
// c10d TCPStore protocol.

#include "base/endpoint.hpp"
#include "base/error.hpp"

#include <cstdint>
#include <optional>

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

/// Runs the load and prints what it took. Fails with kPeerLost, kTimedOut or kProtocol if the
/// server does not play along.
Result<void> bench_store(const StoreBenchOptions& options);

}  // namespace ddprun
