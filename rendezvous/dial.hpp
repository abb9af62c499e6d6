#pragma once

// Connecting without stopping for it: names are looked up by a thread of their own, and the
// addresses of both families are tried side by side. For the few connections that an agent opens.

#include "base/deadline.hpp"
#include "base/descriptor.hpp"
#include "base/endpoint.hpp"
#include "base/error.hpp"
#include "rendezvous/address.hpp"

#include <cstddef>
#include <functional>
#include <memory>
#include <vector>

namespace ddprun {

/// The look-ups of one process, on its io_context. A name service that does not answer holds a
/// thread up for half a minute: so there are few of them, and those who ask for a name at one time
/// share one. One packet that is lost, as where the name service is just told of a new pod, holds
/// it up for 5 s (resolv.conf's timeout): who asks a second later has another one begun beside it.
class NameService {
 public:
  NameService();
  ~NameService();  // does not wait: a look-up that nobody waits for ends by itself
  NameService(const NameService&) = delete;
  NameService& operator=(const NameService&) = delete;

  /// The addresses of `endpoint`. Fails with kInvalidArgument if the host is unknown, kTimedOut
  /// once `limit` has fired, kLimit if too many names are being looked up.
  asio::awaitable<Result<std::vector<Address>>> look_up(Endpoint endpoint, Timer& limit);

 private:
  struct Query;
  static constexpr std::size_t kQueriesMax = 16;
  static constexpr std::size_t kOfOneNameMax = 4;

  /// Shared with its thread, which may outlive us.
  Result<std::shared_ptr<Query>> query_for(const Endpoint& endpoint);

  std::vector<std::shared_ptr<Query>> running_;  // those of one name: the newest is last
};

using OnAddresses = std::function<void(const std::vector<Address>&)>;

/// A connected, non-blocking, tuned socket to `endpoint`: the first of its addresses to answer,
/// where each is tried a moment after the one before. Fails as look_up() does, with kTimedOut once
/// `limit` has fired, or with kPeerLost. Whoever wants to give up sets `limit` to the past. Tells
/// `on_addresses`, if there is one, where the endpoint leads, before it tries to connect.
/// REQUIRES: `names` and `limit` live until it has ended.
asio::awaitable<Result<Descriptor>> dial(
    Endpoint endpoint, NameService& names, Timer& limit, OnAddresses on_addresses = {});

}  // namespace ddprun
