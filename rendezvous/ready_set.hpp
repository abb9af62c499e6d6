#pragma once

// Many sockets behind one descriptor.
//
// A store has thousands of connections and answers most requests in a microsecond, so waiting for
// each by itself would cost more than the request: Asio takes a system call to re-arm every wait.
// Here Asio waits once for the set, and one call then names all connections that are ready. They
// stay registered, level-triggered: what was left unread is reported again, after the others.

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

  /// Fails with kIo if the kernel has no descriptor left.
  static Result<ReadySet> open();

  /// A set that nothing can be added to, to be replaced by an open one.
  static ReadySet none() { return ReadySet(Descriptor()); }

  /// Watches `descriptor`, reported as `token`. Closing the descriptor removes it. Fails with kIo.
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
  explicit ReadySet(Descriptor epoll) : epoll_(std::move(epoll)) {}

  Descriptor epoll_;
};

}  // namespace ddprun
