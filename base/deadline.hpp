#pragma once

// The only way to wait with a limit. For shells only.

#include "base/error.hpp"
#include "base/time.hpp"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/basic_waitable_timer.hpp>
#include <boost/asio/experimental/awaitable_operators.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <utility>

namespace ddprun {

namespace asio = boost::asio;

/// A timer on our clock.
using Timer = asio::basic_waitable_timer<Clock>;

/// The completion token used everywhere: an I/O error is a value in the tuple, never an exception.
inline constexpr auto kTuple = asio::as_tuple(asio::use_awaitable);

/// Awaits `operation`, but not past `deadline`. Fails with kTimedOut, or kCancelled if we were.
///
/// Returns only after the abandoned operation has really ended, so a buffer lent to it is free
/// again. `operation` must report errors as values (kTuple): `||` waits for a success, so after a
/// read that throws this would wait until the timer fires.
template <class T>
asio::awaitable<Result<T>> before(TimePoint deadline, asio::awaitable<T> operation) {
  using namespace asio::experimental::awaitable_operators;

  Timer timer(co_await asio::this_coro::executor, deadline);
  auto first = co_await (std::move(operation) || timer.async_wait(kTuple));

  const asio::cancellation_state asked = co_await asio::this_coro::cancellation_state;
  if (asked.cancelled() != asio::cancellation_type::none) {
    co_return make_error(Errc::kCancelled, "asked to stop while waiting");
  }
  if (first.index() == 1) co_return make_error(Errc::kTimedOut, "no reply by the deadline");
  co_return std::get<0>(std::move(first));
}

}  // namespace ddprun
