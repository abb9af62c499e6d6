#pragma once

// What may block (the name service, a lock of the kernel's), asked on a thread of its own and
// awaited on another: the thread that answers heartbeats waits for neither.

#include "base/deadline.hpp"
#include "base/descriptor.hpp"
#include "base/error.hpp"
#include "base/quiet_thread.hpp"

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

/// Waits until `descriptor` is readable; false once `limit` has fired before.
inline asio::awaitable<bool> readable_before(
    asio::posix::stream_descriptor& descriptor, Timer& limit) {
  using namespace asio::experimental::awaitable_operators;
  using Stream = asio::posix::stream_descriptor;
  const auto first =
      co_await (descriptor.async_wait(Stream::wait_read, kTuple) || limit.async_wait(kTuple));
  co_return first.index() == 0 && !std::get<0>(std::get<0>(first));
}

/// Waits for a duplicate of a descriptor, since Asio closes what it is given. Asio takes a
/// descriptor out of its epoll set by closing it, which does not take out one of several of the
/// same file: what comes for it later would wake whoever has its place by then.
class DuplicateWatch {
 public:
  /// Fails with kIo, saying `what` cannot be done.
  static Result<Descriptor> duplicate(int descriptor, std::string_view what) {
    Descriptor copy(::fcntl(descriptor, F_DUPFD_CLOEXEC, 0));
    if (!copy) return make_errno_error(errno, what);
    return copy;
  }

  DuplicateWatch(const asio::any_io_executor& executor, Descriptor copy)
      : stream_(executor, copy.release()) {}
  ~DuplicateWatch() { const Descriptor closed(stream_.release()); }
  DuplicateWatch(const DuplicateWatch&) = delete;
  DuplicateWatch& operator=(const DuplicateWatch&) = delete;

  asio::posix::stream_descriptor& stream() { return stream_; }

 private:
  asio::posix::stream_descriptor stream_;
};

/// A question that another thread answers. The thread may outlive whoever waits for the answer.
template <class T>
class Errand {
 public:
  /// Runs `ask`, which touches nothing but what it owns, on a thread of its own. Fails with kIo,
  /// saying `what` cannot be done.
  template <class VoteRequest>
  static Result<std::shared_ptr<Errand>> begin(std::string_view what, VoteRequest ask) {
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

  /// Answers it, once.
  void complete(Result<T> answer) {
    const std::scoped_lock lock(mutex_);
    answer_ = std::move(answer);
    static_cast<void>(::eventfd_write(done_.get(), 1));  // the counter is 0: it is taken
  }

  /// None: there is none yet.
  std::optional<Result<T>> answer() {
    const std::scoped_lock lock(mutex_);
    return answer_;
  }

  /// The same on a thread that has little time: blocks for `at_most`.
  std::optional<Result<T>> answer_within(std::chrono::milliseconds at_most) {
    pollfd wait{.fd = done_.get(), .events = POLLIN, .revents = 0};
    ::poll(&wait, 1, static_cast<int>(at_most.count()));
    return answer();
  }

  /// The answer; none once `limit` has fired before, or the wait was cancelled. REQUIRES: the
  /// errand and `limit` live until then. The answer is kIo where no descriptor is left.
  asio::awaitable<std::optional<Result<T>>> await(Timer& limit) {
    auto copy = DuplicateWatch::duplicate(done_.get(), "cannot wait for an answer");
    if (!copy) co_return Result<T>(copy.error());
    DuplicateWatch done(co_await asio::this_coro::executor, *std::move(copy));
    // Asio may wake us without cause: what epoll told of a descriptor that was closed meanwhile
    // goes to whoever has its place.
    bool may_wait = true;
    while (may_wait) {
      may_wait = co_await readable_before(done.stream(), limit);
      auto found = answer();
      if (found) co_return found;
    }
    co_return std::nullopt;
  }

 private:
  Descriptor done_;  // an eventfd, readable once there is an answer
  std::mutex mutex_;
  std::optional<Result<T>> answer_;
};

}  // namespace ddprun
