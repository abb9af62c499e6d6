#pragma once

#include "base/deadline.hpp"

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/cancellation_signal.hpp>

#include <cstddef>
#include <exception>
#include <list>

namespace ddprun {

/// Owns a set of running coroutines.
///
/// All members run, and must be called, on `executor`, which has to be a single thread or a strand.
/// The owner awaits join() before it lets the scope go; the destructor checks that it did.
class TaskScope {
 public:
  explicit TaskScope(asio::any_io_executor executor);
  ~TaskScope();
  TaskScope(const TaskScope&) = delete;
  TaskScope& operator=(const TaskScope&) = delete;

  /// Starts `task`. The first one to throw cancels the others, and join() rethrows what it threw.
  /// After cancel(), starts nothing.
  void spawn(asio::awaitable<void> task);

  /// Asks every task to stop at its next suspension point. Does not wait.
  void cancel();

  /// Returns once no task is left. If the caller is cancelled meanwhile, so are the tasks.
  asio::awaitable<void> join();

  /// How many tasks have not ended yet.
  std::size_t size() const { return running_.size(); }

 private:
  using Running = std::list<asio::cancellation_signal>;

  void ended(Running::iterator task, const std::exception_ptr& thrown);

  asio::any_io_executor executor_;
  Running running_;
  Timer nobody_left_;  // never expires; cancelled to wake join()
  std::exception_ptr first_thrown_;
  bool cancelled_ = false;
};

}  // namespace ddprun
