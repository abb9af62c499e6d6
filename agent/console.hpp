#pragma once

// One of our own output streams, written by a thread of its own, so that a terminal that was
// stopped or a pager nobody reads holds up neither the pump nor a worker.

#include "base/descriptor.hpp"
#include "base/time.hpp"

#include <cstddef>
#include <memory>
#include <string_view>
#include <thread>

namespace ddprun {

/// Driven by one thread, the pump's, which alone calls the functions below.
class Console {
 public:
  /// How much waits for a slow console before lines are left out or a stream is held back.
  static constexpr std::size_t kQueueBytesMax = std::size_t{4} * 1024 * 1024;

  /// Writes to `descriptor`, which stays open as long as the process. `wake` is an eventfd, written
  /// to when there is room again after has_room() said no.
  Console(int descriptor, Descriptor wake);
  /// Leaves what is not yet written unwritten; call flush() before.
  ~Console();
  Console(const Console&) = delete;
  Console& operator=(const Console&) = delete;

  /// Whether this is a file, which nobody can stop: whoever writes to it waits for it, and nothing
  /// is left out.
  bool is_file() const { return is_file_; }

  /// Whether append() may be called. If not, `wake` will tell when it may.
  bool has_room();

  /// Queues whole lines. REQUIRES: has_room() said yes; one call may exceed the limit.
  void append(std::string_view lines);

  /// Counts lines that were left out for want of room; the console is told once it moves again.
  void skip(std::size_t lines);

  /// Waits until everything is written or the console is gone, but not past `deadline`. Yields
  /// whether all was written.
  bool flush(TimePoint deadline);

 private:
  struct Shared;

  // Two owners: a thread stuck in a write to a stopped terminal cannot be joined and is left
  // behind when the agent ends; it must not find its state gone.
  std::shared_ptr<Shared> shared_;
  bool is_file_;
  std::thread writer_;
};

}  // namespace ddprun
