#include "base/task_scope.hpp"

#include "base/check.hpp"

#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/system/system_error.hpp>

#include <utility>

namespace ddprun {
namespace {

/// Cancellation that we asked for unwinds as operation_aborted; that is an end, not a failure.
bool is_abort(const std::exception_ptr& thrown) {
  try {
    std::rethrow_exception(thrown);
  } catch (const boost::system::system_error& error) {
    return error.code() == asio::error::operation_aborted;
  } catch (...) {
    return false;
  }
}

/// Runs `task` so that its end is always reported. Asio puts a task that was never suspended
/// through its queue once more; if it was cancelled by then, for example by itself, that would
/// throw out of the queue.
asio::awaitable<void> to_the_end(asio::awaitable<void> task) {
  std::exception_ptr thrown;
  try {
    static_cast<void>(co_await std::move(task));  // nothing, by its type
  } catch (...) {
    thrown = std::current_exception();
  }
  co_await asio::this_coro::throw_if_cancelled(false);
  if (thrown) std::rethrow_exception(thrown);
}

}  // namespace

TaskScope::TaskScope(asio::any_io_executor executor)
    : executor_(std::move(executor)), nobody_left_(executor_, kNever) {}

TaskScope::~TaskScope() {
  DDPRUN_CHECK(running_.empty());
}

void TaskScope::spawn(asio::awaitable<void> task) {
  try {
    spawn_or_throw(std::move(task));
  } catch (...) {
    failed(std::current_exception());
  }
}

void TaskScope::spawn_or_throw(asio::awaitable<void> task) {
  if (cancelled_) return;
  const auto self = running_.emplace(running_.end());
  auto on_end = [this, self](const std::exception_ptr& thrown) { ended(self, thrown); };
  try {
    asio::co_spawn(
        executor_,
        to_the_end(std::move(task)),
        asio::bind_cancellation_slot(self->slot(), std::move(on_end)));
  } catch (...) {
    running_.erase(self);
    throw;
  }
}

void TaskScope::cancel() {
  cancelled_ = true;
  // A task that ends meanwhile destroys its signal, so each is cancelled separately.
  for (auto task = running_.begin(); task != running_.end();) {
    auto& signal = *task++;
    signal.emit(asio::cancellation_type::terminal);
  }
}

asio::awaitable<void> TaskScope::join() {
  const bool throws = co_await asio::this_coro::throw_if_cancelled();
  co_await asio::this_coro::throw_if_cancelled(false);
  while (!running_.empty()) {
    co_await nobody_left_.async_wait(kTuple);
    const asio::cancellation_state asked = co_await asio::this_coro::cancellation_state;
    if (asked.cancelled() != asio::cancellation_type::none && !cancelled_) cancel();
  }
  co_await asio::this_coro::throw_if_cancelled(throws);
  if (first_thrown_) std::rethrow_exception(std::exchange(first_thrown_, nullptr));
}

void TaskScope::ended(Running::iterator task, const std::exception_ptr& thrown) {
  running_.erase(task);
  if (thrown && !(cancelled_ && is_abort(thrown))) failed(thrown);
  if (running_.empty()) nobody_left_.cancel();
}

void TaskScope::failed(const std::exception_ptr& thrown) {
  if (first_thrown_) return;
  first_thrown_ = thrown;
  cancel();
}

}  // namespace ddprun
