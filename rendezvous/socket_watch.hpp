#pragma once

// The store's loop: one wait of Asio for all of its sockets (ready_set.hpp says why), and one timer
// for all their deadlines.

#include "base/deadline.hpp"
#include "base/error.hpp"
#include "rendezvous/core/link.hpp"
#include "rendezvous/ready_set.hpp"

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>

#include <array>
#include <functional>
#include <optional>
#include <set>
#include <span>
#include <utility>

namespace ddprun {

class SocketWatch {
 public:
  using OnTime = std::function<void(TimePoint now)>;

  /// Fails with kIo if the kernel has no descriptor left.
  static Result<SocketWatch> open(asio::io_context& context);

  /// The set to add sockets to, each with its Link as the token.
  ReadySet& sockets() { return ready_; }

  /// Waits until some are ready; false if it was cancelled.
  asio::awaitable<bool> wait();

  /// Those that are ready now, at most 256. Valid until the next call.
  std::span<const epoll_event> ready() { return ready_.poll(events_); }

  /// Gives `link` a deadline, or none. `held` is where the link keeps it.
  void set_deadline(Link link, std::optional<TimePoint>& held, std::optional<TimePoint> deadline);

  /// A link whose deadline has passed, and no longer has one; none if there is none.
  std::optional<Link> take_overdue(TimePoint now);

  /// Calls `on_time` when a deadline has passed, until it is cancelled.
  asio::awaitable<void> keep_time(OnTime on_time);

 private:
  SocketWatch(asio::io_context& context, ReadySet ready, Descriptor any_ready);

  ReadySet ready_;
  asio::posix::stream_descriptor any_ready_;  // ready_'s, for Asio to wait on
  std::array<epoll_event, 256> events_{};
  std::set<std::pair<TimePoint, Link>> deadlines_;
  Timer timer_;
};

}  // namespace ddprun
