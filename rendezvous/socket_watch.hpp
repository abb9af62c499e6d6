#pragma once

// Waits for many sockets and their deadlines at once, for a server on Asio: one wait of Asio's for
// all sockets (ready_set.hpp says why), and one timer for all deadlines.

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
  static Result<SocketWatch> open(asio::io_context& context, ReadySet::Trigger trigger);

  /// Where the sockets are added and changed, each with its Link as the token.
  ReadySet& sockets() { return ready_; }

  /// Waits until some are ready; false if we were cancelled.
  asio::awaitable<bool> wait();

  /// Those that are ready now, some 256 at most. Valid until the next call.
  std::span<const epoll_event> ready() { return ready_.poll(events_); }

  /// `link` has to go on until `deadline`, or for ever. `held` is where it keeps that.
  void set_deadline(Link link, std::optional<TimePoint>& held, std::optional<TimePoint> deadline);

  /// One whose deadline has passed, which is to be set anew or given up; none if there is none.
  std::optional<Link> take_overdue(TimePoint now);

  /// Calls `on_time` when a deadline has passed, and after soon(), until it is cancelled.
  asio::awaitable<void> keep_time(OnTime on_time);

  /// Ends the present wait of keep_time().
  void soon();

 private:
  SocketWatch(asio::io_context& context, ReadySet ready, Descriptor any_ready);

  ReadySet ready_;
  asio::posix::stream_descriptor any_ready_;  // ready_'s, for Asio to wait on
  std::array<epoll_event, 256> events_{};
  std::set<std::pair<TimePoint, Link>> deadlines_;
  Timer timer_;
};

}  // namespace ddprun
