#include "base/task_scope.hpp"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <gtest/gtest.h>

#include <stdexcept>

namespace ddprun {
namespace {

using namespace std::chrono_literals;

asio::awaitable<void> sleep_for_ever() {
  Timer timer(co_await asio::this_coro::executor, kNever);
  co_await timer.async_wait(asio::use_awaitable);
}

asio::awaitable<void> throw_at_once() {
  throw std::runtime_error("thrown by a task");
  co_return;
}

/// Runs `body` to its end on a context of its own; rethrows what it throws.
template <class Body>
void run(Body body) {
  asio::io_context context(1);
  std::exception_ptr thrown;
  asio::co_spawn(context, std::move(body), [&thrown](const std::exception_ptr& e) { thrown = e; });
  context.run();
  if (thrown) std::rethrow_exception(thrown);
}

TEST(TaskScope, JoinReturnsAfterCancel) {
  run([]() -> asio::awaitable<void> {
    TaskScope scope(co_await asio::this_coro::executor);
    scope.spawn(sleep_for_ever());
    scope.spawn(sleep_for_ever());
    scope.cancel();
    co_await scope.join();
    EXPECT_EQ(scope.size(), 0U);
  });
}

TEST(TaskScope, RethrowsTheFirstFailureAndCancelsTheRest) {
  const auto owner = []() -> asio::awaitable<void> {
    TaskScope scope(co_await asio::this_coro::executor);
    scope.spawn(sleep_for_ever());
    scope.spawn(throw_at_once());
    co_await scope.join();
  };
  EXPECT_THROW(run(owner), std::runtime_error);
}

TEST(TaskScope, StartsNothingAfterCancel) {
  run([]() -> asio::awaitable<void> {
    TaskScope scope(co_await asio::this_coro::executor);
    scope.cancel();
    scope.spawn(sleep_for_ever());
    EXPECT_EQ(scope.size(), 0U);
    co_await scope.join();
  });
}

asio::awaitable<void> cancel_at_once(TaskScope& scope) {
  scope.cancel();
  co_return;
}

TEST(TaskScope, HearsOfATaskThatEndsItAllBeforeItEverWaited) {
  run([]() -> asio::awaitable<void> {
    TaskScope scope(co_await asio::this_coro::executor);
    scope.spawn(sleep_for_ever());
    scope.spawn(cancel_at_once(scope));
    co_await scope.join();
    EXPECT_EQ(scope.size(), 0U);
  });
}

TEST(TaskScope, ACancelledOwnerTakesItsTasksAlong) {
  bool joined = false;
  const auto story = [&joined]() -> asio::awaitable<void> {  // NOLINT(*-lambda-coroutines): named
    const auto owner = [](bool& done) -> asio::awaitable<void> {
      co_await asio::this_coro::throw_if_cancelled(false);
      TaskScope inner(co_await asio::this_coro::executor);
      inner.spawn(sleep_for_ever());
      co_await inner.join();
      done = true;
    };
    TaskScope outer(co_await asio::this_coro::executor);
    outer.spawn(owner(joined));
    co_await asio::post(co_await asio::this_coro::executor, asio::use_awaitable);
    outer.cancel();
    co_await outer.join();
  };
  run(story);
  EXPECT_TRUE(joined);
}

TEST(Before, ReportsTheDeadlineAsAnError) {
  run([]() -> asio::awaitable<void> {
    const auto wait = []() -> asio::awaitable<int> {
      Timer timer(co_await asio::this_coro::executor, kNever);
      co_await timer.async_wait(kTuple);
      co_return 1;
    };
    const auto got = co_await before(Clock::now() + 1ms, wait());
    EXPECT_TRUE(!got && got.error().is(Errc::kTimedOut));
  });
}

}  // namespace
}  // namespace ddprun
