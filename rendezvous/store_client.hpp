#pragma once

// ddprun's own client of a c10d TCPStore, ours or torch's. Blocking, for one thread; every receive
// has a deadline, which torch's own client lacks.
//
// Keys are named as torch users name them: key "k" is stored as "/k", so this client and a Python
// TCPStore mean the same key. Nothing is retried: ADD, APPEND, COMPARE_SET and the queue operations
// are not idempotent. After kPeerLost, kProtocol, or kTimedOut of anything but wait(), the client
// is dead, since what is still to come would be taken for the next answer.

#include "base/descriptor.hpp"
#include "base/endpoint.hpp"
#include "base/error.hpp"
#include "base/time.hpp"
#include "rendezvous/core/store_encoder.hpp"

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ddprun {

/// What the server understands. There is no negotiation, and a wrong guess costs the connection.
enum class StoreDialect : std::uint8_t {
  kTorch22,   // VALIDATE to CANCEL_WAIT
  kTorch25,   // and PING
  kTorch28,   // and queues; never torch's legacy server
  kTorch210,  // and LIST_KEYS: our server
};

class StoreClient {
 public:
  struct Options {
    StoreDialect dialect = StoreDialect::kTorch210;
    Duration answer_timeout = std::chrono::seconds(30);  // of every answer but that of wait()
  };

  /// Connects, and says VALIDATE and PING in one send. A server that closes on PING (torch 2.2 to
  /// 2.4) is called again with VALIDATE alone. Tries again, with growing pauses, while nobody
  /// listens. Fails with kTimedOut or kPeerLost at `deadline`, kProtocol on a wrong answer.
  static Result<std::unique_ptr<StoreClient>> connect(
      const Endpoint& endpoint, const Options& options, TimePoint deadline);

  /// Stores `value`. No answer exists: the next operation that has one tells whether it arrived.
  Result<void> set(std::string_view key, std::string_view value);
  Result<void> multi_set(std::span<const std::pair<std::string, std::string>> pairs);
  Result<void> append(std::string_view key, std::string_view value);

  /// Waits for `key`, then reads it. Fails with kTimedOut as wait() does.
  Result<std::string> get(std::string_view key, TimePoint deadline);
  Result<std::vector<std::string>> multi_get(std::span<const std::string> keys, TimePoint deadline);

  /// Adds to a counter; its new value.
  Result<std::int64_t> add(std::string_view key, std::int64_t delta);

  /// Counts this worker in, as torch's stores with a world size do; how many there are now.
  Result<std::int64_t> announce();

  /// What the key holds afterwards, or `expected` if it was absent and that is not empty.
  Result<std::string> compare_set(
      std::string_view key, std::string_view expected, std::string_view desired);

  /// Returns once all `keys` exist. Fails with kTimedOut at `deadline`; the client stays usable.
  Result<void> wait(std::span<const std::string> keys, TimePoint deadline);

  /// Whether all `keys` exist.
  Result<bool> check(std::span<const std::string> keys);

  Result<bool> delete_key(std::string_view key);
  Result<std::int64_t> num_keys();

  /// Every key, without its slash; those without one (init/) are left out, as in torch.
  Result<std::vector<std::string>> list_keys();

  Result<void> queue_push(std::string_view name, std::string_view value);
  /// The oldest item; none if the queue is empty.
  Result<std::optional<std::string>> queue_pop(std::string_view name);
  Result<std::int64_t> queue_len(std::string_view name);

  /// Returns once `world_size` clients have called this with `key`, which is good for one barrier.
  /// Made of ADD, SET and WAIT, as every server has them.
  Result<void> barrier(std::string_view key, std::int64_t world_size, TimePoint deadline);

 private:
  StoreClient(Descriptor socket, const Options& options)
      : socket_(std::move(socket)), options_(options) {}

  static Result<std::unique_ptr<StoreClient>> try_connect(
      const Endpoint& endpoint, const Options& options, TimePoint deadline);

  TimePoint answer_deadline() const { return Clock::now() + options_.answer_timeout; }
  Result<void> send(const StoreEncoder& requests);
  Result<void> cancel_wait();
  template <class Number>
  Result<Number> receive_number(TimePoint deadline);
  Result<std::string> receive_string(TimePoint deadline);
  template <class Number>
  Result<Number> ask(const StoreEncoder& request);
  Result<void> require(StoreDialect dialect, std::string_view operation) const;

  Descriptor socket_;
  Options options_;
};

}  // namespace ddprun
