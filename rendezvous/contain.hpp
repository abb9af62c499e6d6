#pragma once

// What keeps an exception in the work for one of many connections from ending the others: in a bare
// TaskScope the first exception cancels every task.

#include "base/deadline.hpp"

#include <boost/asio/error.hpp>
#include <boost/system/system_error.hpp>

#include <exception>
#include <utility>

namespace ddprun {

/// Runs `task`, which is part of the work for one connection, in a TaskScope. Calls `abandon` with
/// what `task` throws, such as std::bad_alloc. Only cancellation is thrown further.
template <class Abandon>
asio::awaitable<void> contain(asio::awaitable<void> task, Abandon abandon) {
  try {
    static_cast<void>(co_await std::move(task));  // nothing, by its type
  } catch (const std::exception& thrown) {
    const auto* const failed = dynamic_cast<const boost::system::system_error*>(&thrown);
    // TaskScope knows what it has cancelled.
    if (failed != nullptr && failed->code() == asio::error::operation_aborted) throw;
    abandon(thrown);
  }
}

}  // namespace ddprun
