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
/// All members run, and must be called, on `executor`, which must be a single thread or a strand.
/// The owner awaits join() before it destroys the scope; the destructor checks this.
class TaskScope {
 public:
  explicit TaskScope(asio::any_io_executor executor);
  ~TaskScope();
  TaskScope(const TaskScope&) = delete;
  TaskScope& operator=(const TaskScope&) = delete;

  /// Starts `task`. The first task to throw cancels the others, and join() rethrows its exception.
  /// One that cannot be started, for want of memory, counts as one that threw. After cancel(),
  /// starts nothing.
  void spawn(asio::awaitable<void> task);

  /// The same for one of many that have nothing to do with each other: throws if it cannot be
  /// started, and the others go on.
  void spawn_or_throw(asio::awaitable<void> task);

  /// Asks every task to stop at its next suspension point. Does not wait.
  void cancel();

  /// Returns once no task is left. If the caller is cancelled meanwhile, so are the tasks.
  asio::awaitable<void> join();

  /// The number of tasks that have not ended yet.
  std::size_t size() const { return running_.size(); }

 private:
  using Running = std::list<asio::cancellation_signal>;

  void ended(Running::iterator task, const std::exception_ptr& thrown);
  void failed(const std::exception_ptr& thrown);

  asio::any_io_executor executor_;
  Running running_;
  Timer nobody_left_;  // never expires; cancelled to wake join()
  std::exception_ptr first_thrown_;
  bool cancelled_ = false;
};

}  // namespace ddprun
