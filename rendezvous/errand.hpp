#pragma once

// Calls that may block (the name service, a lock of the kernel), made on a thread of their own and
// awaited on another, so that the thread that answers heartbeats never waits for them.

#include "base/deadline.hpp"
#include "base/descriptor.hpp"
#include "base/error.hpp"
#include "base/quiet_thread.hpp"
#include "rendezvous/stream_of.hpp"

#include <boost/asio/posix/stream_descriptor.hpp>

#include <cerrno>
#include <chrono>
#include <memory>
#include <mutex>
#include <optional>
#include <string_view>
#include <thread>
#include <utility>

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>

namespace ddprun {

/// A question that another thread answers. That thread may outlive the one that waits.
template <class T>
class Errand {
 public:
  /// Runs `ask`, which touches nothing but what it owns, on a thread of its own. Fails with kIo,
  /// saying that `what` failed.
  template <class Ask>
  static Result<std::shared_ptr<Errand>> begin(std::string_view what, Ask ask) {
    auto errand = open(what);
    if (!errand) return errand.error();
    std::thread thread;
    const auto started = start_quiet_thread(
        thread, what, [errand = *errand, ask = std::move(ask)] { errand->complete(ask()); });
    if (!started) return started.error();
    thread.detach();
    return errand;
  }

  /// One that complete() answers. Fails as above.
  static Result<std::shared_ptr<Errand>> open(std::string_view what) {
    auto errand = std::make_shared<Errand>();
    errand->done_ = Descriptor(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (!errand->done_) return make_errno_error(errno, what);
    return errand;
  }

  /// Sets the answer. A second one comes too late, unless nobody has taken the first.
  void complete(Result<T> answer) {
    const std::scoped_lock lock(mutex_);
    answer_ = std::move(answer);
    static_cast<void>(::eventfd_write(done_.get(), 1));  // full means readable already
  }

  /// The answer, if it has come.
  std::optional<Result<T>> answer() {
    const std::scoped_lock lock(mutex_);
    return answer_;
  }

  /// The same for a thread that has little time: blocks for `at_most`.
  std::optional<Result<T>> answer_within(std::chrono::milliseconds at_most) {
    pollfd wait{.fd = done_.get(), .events = POLLIN, .revents = 0};
    ::poll(&wait, 1, static_cast<int>(at_most.count()));
    return answer();
  }

  /// The answer; none once `limit` has fired, or if the wait was cancelled. kIo if no descriptor is
  /// left. REQUIRES: the errand and `limit` live until then.
  asio::awaitable<std::optional<Result<T>>> await(Timer& limit) {
    using namespace asio::experimental::awaitable_operators;
    using Stream = asio::posix::stream_descriptor;
    // A duplicate, since several may wait, and Asio closes what it is given.
    Descriptor copy(::fcntl(done_.get(), F_DUPFD_CLOEXEC, 0));
    if (!copy) co_return Result<T>(make_errno_error(errno, "cannot wait for an answer"));
    Stream done(co_await asio::this_coro::executor);
    const auto refused = give_to(done, std::move(copy));
    if (refused)
      co_return Result<T>(make_errno_error(refused.value(), "cannot wait for an answer"));
    const auto first =
        co_await (done.async_wait(Stream::wait_read, kTuple) || limit.async_wait(kTuple));
    co_return first.index() == 0 ? answer() : std::nullopt;
  }

 private:
  Descriptor done_;  // an eventfd, readable once there is an answer
  std::mutex mutex_;
  std::optional<Result<T>> answer_;
};

}  // namespace ddprun
