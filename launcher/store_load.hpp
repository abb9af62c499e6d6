#pragma once

// Drives the connections of a load from one thread: each client sends a batch, reads all of its
// answer, and sends the next.

#include "base/descriptor.hpp"
#include "base/error.hpp"
#include "base/time.hpp"
#include "launcher/store_bench.hpp"
#include "launcher/store_workload.hpp"
#include "rendezvous/ready_set.hpp"

#include <cstdint>
#include <vector>

namespace ddprun {

/// What a load took.
struct StoreLoadResult {
  std::int64_t operations = 0;
  Duration wall{};                  // of wait_fanout: the sum of its latencies
  std::vector<Duration> latencies;  // of each batch; of wait_fanout: from SET to the last release
};

class StoreLoad {
 public:
  explicit StoreLoad(const StoreBenchOptions& options) : options_(options) {}

  /// Connects and greets all clients, one after the other. Fails as connect_to() does, or with
  /// kPeerLost if the server refuses.
  Result<void> connect();

  /// Runs the load. Fails with kPeerLost, or kTimedOut if nothing moves for half a minute.
  Result<StoreLoadResult> run();

 private:
  struct Client {
    Descriptor socket;
    StoreBatch batch;
    std::size_t sent = 0;      // of batch.requests
    std::size_t received = 0;  // of batch.reply_bytes
    TimePoint since;           // the batch began
    bool writable_wanted = false;
  };

  Result<void> begin(Client& client);
  Result<void> send(Client& client);
  Result<bool> receive(Client& client);
  Result<void> advance(Client& client, bool writable, std::vector<Client*>& done);
  Result<void> step(std::vector<Client*>& done);
  Result<StoreLoadResult> run_batches();
  Result<StoreLoadResult> run_fanout();
  Result<void> answer_all(std::size_t clients);

  const StoreBenchOptions options_;
  std::vector<Client> clients_;
  ReadySet ready_ = ReadySet::none();
  std::vector<char> buffer_ = std::vector<char>(1U << 20U);
};

}  // namespace ddprun
