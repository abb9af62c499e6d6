#pragma once

// Drives the connections of a load from one thread: each client sends a batch, reads all of its
// answer, and sends the next.
//
// It is to cost less than any server, so that the server is what is measured. Answers are counted
// and dropped in the kernel. Large requests are sent from a file in memory, without a copy.

#include "base/descriptor.hpp"
#include "base/error.hpp"
#include "base/time.hpp"
#include "bench/store_workload.hpp"
#include "rendezvous/ready_set.hpp"

#include <cstdint>
#include <vector>

#include <sys/types.h>

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

  /// Connects and greets all clients, one after the other. Fails as BlockingSocket::connect() does,
  /// or with kPeerLost if the server refuses.
  Result<void> connect();

  /// Runs the load. Fails with kPeerLost, or kTimedOut if nothing moves for half a minute.
  Result<StoreLoadResult> run();

 private:
  struct Client {
    Descriptor socket;
    StoreBatch batch;
    off_t file_offset = -1;    // of the batch in file_; negative: it is not there
    std::size_t sent = 0;      // of batch.requests
    std::size_t received = 0;  // of batch.reply_bytes
    TimePoint since;           // the batch began
    std::int64_t step = 0;     // of kGloo
    bool writable_wanted = false;
  };

  Result<void> begin(Client& client);
  Result<void> send(Client& client);
  Result<bool> receive(Client& client);
  Result<void> advance(Client& client, bool writable, std::vector<Client*>& done);
  Result<void> step(std::vector<Client*>& done);
  Result<StoreLoadResult> run_batches();
  Result<StoreLoadResult> run_fanout();
  Result<StoreLoadResult> run_gloo();
  Result<void> answer_all(std::size_t clients);
  Result<void> keep_in_file(Client& client);
  ssize_t send_rest(const Client& client) const;

  const StoreBenchOptions options_;
  std::vector<Client> clients_;
  ReadySet ready_ = ReadySet::none();
  Descriptor file_;  // in memory; batches that are worth it, one after the other
  off_t file_bytes_ = 0;
};

}  // namespace ddprun
