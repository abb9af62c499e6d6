#pragma once

// Whether an event loop can wait at all. Asio ignores it if the kernel does not watch the loop's
// own timer (no memory, or the limit fs.epoll.max_user_watches): no deadline would ever come.

#include "base/deadline.hpp"

#include <boost/asio/io_context.hpp>

#include <chrono>

namespace ddprun {

/// Waits for a timer that is due: microseconds, or `patience` if it never fires, since a busy
/// machine may run us late. Fails with kIo then. REQUIRES: `context` has no other work.
Result<void> check_timers(asio::io_context& context, Duration patience = std::chrono::seconds(5));

}  // namespace ddprun
