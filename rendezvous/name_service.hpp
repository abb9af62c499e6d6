#pragma once

// Name look-ups that never block the thread of the io_context. Asio's async_resolve does not serve:
// it looks up one name after the other on a single thread, and its io_context waits for that thread
// when it ends. So a name service that hangs for half a minute would delay the connections to all
// other nodes, and the exit of the process. Here each look-up calls the resolver on a thread of its
// own, which is abandoned if nobody waits any more.

#include "base/deadline.hpp"
#include "base/endpoint.hpp"
#include "base/error.hpp"
#include "rendezvous/address.hpp"

#include <cstddef>
#include <memory>
#include <vector>

namespace ddprun {

/// The look-ups of one io_context. At most 16 run at a time, and those who ask for the same name
/// share one. A single lost packet delays a look-up by 5 s (the timeout of resolv.conf), as when
/// the name service is just learning of a new pod: who asks a second later starts another one in
/// parallel.
class NameService {
 public:
  NameService();
  ~NameService();  // does not wait for look-ups that still run
  NameService(const NameService&) = delete;
  NameService& operator=(const NameService&) = delete;

  /// The addresses of `endpoint`; those of a number at once. Fails with kInvalidArgument if the
  /// host is unknown, kTimedOut once `limit` has fired, kLimit if too many names are looked up.
  asio::awaitable<Result<std::vector<Address>>> look_up(Endpoint endpoint, Timer& limit);

 private:
  struct Query;
  static constexpr std::size_t kQueriesMax = 16;
  static constexpr std::size_t kOfOneNameMax = 4;

  /// Shared with its thread, which may outlive us.
  Result<std::shared_ptr<Query>> query_for(const Endpoint& endpoint);

  std::vector<std::shared_ptr<Query>> running_;  // of queries for one name, the newest is last
};

}  // namespace ddprun
