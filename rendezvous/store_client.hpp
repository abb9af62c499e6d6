#pragma once

// A client of a c10d TCPStore, ours or torch's (2.5 or later): checks whether a store is there and
// has a key. Blocking, for one thread; every receive has a deadline, which torch's own client
// lacks.
//
// Keys are named as torch users name them: "k" is stored as "/k". After a failure the connection is
// unusable: bytes that arrive later would be taken for the next reply.

#include "base/endpoint.hpp"
#include "base/error.hpp"
#include "base/time.hpp"
#include "rendezvous/blocking_socket.hpp"

#include <string_view>
#include <utility>

namespace ddprun {

class StoreClient {
 public:
  /// Connects and sends VALIDATE and PING at once. Retries, with growing pauses, while nobody
  /// listens. Fails with kTimedOut or kPeerLost at `deadline`, or kProtocol on a wrong reply.
  static Result<StoreClient> connect(const Endpoint& endpoint, TimePoint deadline);

  /// Whether `key` exists. Fails with kTimedOut at `deadline`, or kPeerLost.
  Result<bool> has(std::string_view key, TimePoint deadline);

 private:
  explicit StoreClient(BlockingSocket socket) : socket_(std::move(socket)) {}

  static Result<StoreClient> try_connect(const Endpoint& endpoint, TimePoint deadline);

  BlockingSocket socket_;
};

}  // namespace ddprun
