#include "rendezvous/socket_watch.hpp"

#include "base/descriptor.hpp"
#include "rendezvous/stream_of.hpp"

#include <cerrno>

#include <fcntl.h>

namespace ddprun {

Result<SocketWatch> SocketWatch::open(asio::io_context& context) {
  auto ready = ReadySet::open(ReadySet::Trigger::kEdge);
  if (!ready) return ready.error();
  // A duplicate, since Asio closes what it is given.
  Descriptor any_ready(::fcntl(ready->descriptor(), F_DUPFD_CLOEXEC, 0));
  if (!any_ready) return make_errno_error(errno, "cannot watch connections");
  return SocketWatch(context, std::move(*ready), std::move(any_ready));
}

SocketWatch::SocketWatch(asio::io_context& context, ReadySet ready, Descriptor any_ready)
    : ready_(std::move(ready)),
      any_ready_(stream_of(context, std::move(any_ready))),
      timer_(context, kNever) {}

asio::awaitable<bool> SocketWatch::wait() {
  const auto [error] =
      co_await any_ready_.async_wait(asio::posix::descriptor_base::wait_read, kTuple);
  co_return !error;
}

void SocketWatch::set_deadline(
    Link link, std::optional<TimePoint>& held, std::optional<TimePoint> deadline) {
  if (held) deadlines_.erase({*held, link});
  held = deadline;
  if (!deadline) return;  // the timer may fire without a cause
  deadlines_.emplace(*deadline, link);
  if (*deadline < timer_.expiry()) timer_.expires_at(*deadline);
}

std::optional<Link> SocketWatch::take_overdue(TimePoint now) {
  if (deadlines_.empty() || deadlines_.begin()->first > now) return std::nullopt;
  return deadlines_.extract(deadlines_.begin()).value().second;
}

asio::awaitable<void> SocketWatch::keep_time(OnTime on_time) {
  co_await asio::this_coro::throw_if_cancelled(false);
  for (;;) {
    const auto [re_armed] = co_await timer_.async_wait(kTuple);
    const asio::cancellation_state asked = co_await asio::this_coro::cancellation_state;
    if (asked.cancelled() != asio::cancellation_type::none) co_return;
    if (re_armed) continue;
    on_time(Clock::now());
    timer_.expires_at(deadlines_.empty() ? kNever : deadlines_.begin()->first);
  }
}

}  // namespace ddprun
