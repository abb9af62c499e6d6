#pragma once

// A thread for work that may block: writing to a stopped terminal, to a pipe that nobody reads, or
// to a disk that does not respond. Callers wait for it only up to a limit, and then abandon it.

#include "base/error.hpp"
#include "base/time.hpp"

#include <functional>
#include <memory>
#include <string_view>
#include <thread>

namespace ddprun {

/// Any thread may call the functions below.
class WriterThread {
 public:
  /// Starts the thread. Fails with kIo and the message `what` if no thread can be started.
  static Result<std::unique_ptr<WriterThread>> start(std::string_view what);

  /// Ends the thread without starting another task. A thread in the middle of a task cannot be
  /// joined: it is abandoned, and ends by itself if that task ever ends.
  ~WriterThread();
  WriterThread(const WriterThread&) = delete;
  WriterThread& operator=(const WriterThread&) = delete;

  /// Runs `task` on the thread, after earlier tasks. The task may outlive this object, so it must
  /// own what it touches.
  void post(std::function<void()> task);

  /// Waits until every task has ended, at most until `deadline`. Returns whether all have.
  bool flush(TimePoint deadline);

 private:
  struct Shared;

  WriterThread(std::shared_ptr<Shared> shared, std::thread thread);

  // Two owners: an abandoned thread must not find its state gone.
  std::shared_ptr<Shared> shared_;
  std::thread thread_;
};

}  // namespace ddprun
