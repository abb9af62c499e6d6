#pragma once

// Many sockets behind one descriptor.
//
// The store has a loop of its own, where agents' connections wait through Asio: it has thousands of
// connections and answers most requests in a microsecond, which is less than a wait of Asio costs
// (a system call to arm it, and a coroutine to resume). Here Asio waits once for the set, and one
// call then names all connections that are ready. They stay registered. `ddpbench store` and the
// floor in bench/echo_floor.cpp measure it; see docs/benchmarks.md.

#include "base/descriptor.hpp"
#include "base/error.hpp"

#include <cstdint>
#include <span>
#include <utility>

#include <sys/epoll.h>

namespace ddprun {

class ReadySet {
 public:
  /// What to wait for on one descriptor; its end and its errors are always reported.
  struct Interest {
    bool readable = false;
    bool writable = false;
    bool operator==(const Interest&) const = default;
  };

  /// When one that is ready is reported.
  enum class Trigger {
    // By each poll(), while it is ready.
    kLevel,
    // Once, when it becomes ready and when change() finds it so: in the order in which they became
    // ready, so that nobody is passed by one that was reported a moment ago. Tells by EPOLLRDHUP
    // that the peer sends no more, which a read that took all data does not.
    kEdge,
  };

  /// Fails with kIo if the kernel has no descriptor left.
  static Result<ReadySet> open(Trigger trigger);

  /// A set that nothing can be added to, to be replaced by an open one.
  static ReadySet none() { return {Descriptor(), Trigger::kLevel}; }

  /// Watches `descriptor`, reported as `token`. Closing the descriptor removes it, unless another
  /// process or descriptor holds the same socket: then it has to be removed before. Fails with kIo.
  Result<void> add(int descriptor, Interest interest, std::uint64_t token);

  /// REQUIRES: `descriptor` was added.
  void change(int descriptor, Interest interest, std::uint64_t token);

  /// Stops watching `descriptor` without closing it.
  void remove(int descriptor);

  /// Fills `events` with those ready now; waits at most `timeout_ms` (0: not at all, -1: for ever).
  std::span<const epoll_event> poll(std::span<epoll_event> events, int timeout_ms = 0);

  /// Readable while any of the set is ready.
  int descriptor() const { return epoll_.get(); }

 private:
  ReadySet(Descriptor epoll, Trigger trigger) : epoll_(std::move(epoll)), trigger_(trigger) {}

  epoll_event event_of(Interest interest, std::uint64_t token) const;

  Descriptor epoll_;
  Trigger trigger_;
};

}  // namespace ddprun
