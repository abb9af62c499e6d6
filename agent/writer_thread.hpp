#pragma once

// A thread for what may take long: writing to a terminal that was stopped, a pipe that nobody
// reads, a disk that does not answer. Whoever waits for it waits with a limit, and then leaves it
// behind.

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
  /// Starts the thread. Fails with kIo, naming `what` it is for, where none can be had.
  static Result<std::unique_ptr<WriterThread>> start(std::string_view what);

  /// Ends the thread without starting another task. One that is in the middle of a task cannot be
  /// joined: it is left behind, and ends on its own if that task ever does.
  ~WriterThread();
  WriterThread(const WriterThread&) = delete;
  WriterThread& operator=(const WriterThread&) = delete;

  /// Runs `task` on the thread, behind those that were posted before. It may outlive this object,
  /// and so must own whatever it touches.
  void post(std::function<void()> task);

  /// Waits until every task has ended, but not past `deadline`. Yields whether all have.
  bool flush(TimePoint deadline);

 private:
  struct Shared;

  WriterThread(std::shared_ptr<Shared> shared, std::thread thread);

  // Two owners: a thread that is left behind must not find its state gone.
  std::shared_ptr<Shared> shared_;
  std::thread thread_;
};

}  // namespace ddprun
