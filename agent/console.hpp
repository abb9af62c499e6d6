#pragma once

// Our own stdout and stderr, each written by a thread of its own, so that a terminal that was
// stopped or a pager nobody reads holds up neither the agent, nor the pump, nor a worker.
//
// All that the agent prints while a job runs goes through here: the workers' lines by way of the
// pump, reports by way of the journal, log lines by way of the sink. What is appended earlier
// appears earlier.

#include "agent/writer_thread.hpp"
#include "base/descriptor.hpp"
#include "base/error.hpp"
#include "base/time.hpp"

#include <cstddef>
#include <map>
#include <memory>
#include <string_view>
#include <vector>

namespace ddprun {

/// One of the two. Any thread may call its functions, but has_room() is for the pump alone.
class Console {
 public:
  /// How much waits for a slow console before lines are left out or a stream is held back.
  static constexpr std::size_t kQueueBytesMax = std::size_t{4} * 1024 * 1024;

  /// Writes to `descriptor`, which stays open as long as the process. `wake` is an eventfd, written
  /// to when there is room again after has_room() said no. Fails with kIo where no thread is left.
  static Result<std::shared_ptr<Console>> open(
      int descriptor, std::shared_ptr<const Descriptor> wake);
  /// Leaves what is not yet written unwritten; call flush() before.
  ~Console();
  Console(const Console&) = delete;
  Console& operator=(const Console&) = delete;

  /// Whether this is a file, which nobody can stop: whoever writes to it waits for it, and nothing
  /// is left out.
  bool is_file() const { return is_file_; }

  /// Whether append() may be called. If not, `wake` will tell when it may.
  bool has_room();

  /// Queues a worker's output. REQUIRES: has_room() said yes; one call may exceed the limit.
  void append(std::string_view lines);

  /// Counts lines that were left out for want of room; the console is told once it moves again.
  void skip(std::size_t lines);

  /// Queues words of our own, whole lines, on a new line; they are left out where there is no room.
  void write(std::string_view lines);

  /// Waits until everything is written or the console is gone, but not past `deadline`. Yields
  /// false if it takes no more.
  bool flush(TimePoint deadline);

  /// Whether everything written so far was taken: by a reader that stayed, on a disk with room.
  bool is_whole() const;

 private:
  struct Shared;

  Console(std::shared_ptr<Shared> shared, std::unique_ptr<WriterThread> writer, bool is_file);

  void write_soon();

  // Two owners: the writer may have to be left behind in the middle of a write.
  std::shared_ptr<Shared> shared_;
  std::unique_ptr<WriterThread> writer_;
  bool is_file_;
};

/// Both of them. For the agent's thread; each Console that it gives out may outlive it.
class Consoles {
 public:
  /// Starts no thread yet. Fails with kIo if the kernel gives no descriptor.
  static Result<std::unique_ptr<Consoles>> create();

  /// The console behind our `descriptor`, 1 or 2: the same for both if they are one file, terminal
  /// or pipe (2>&1). Fails with kIo where its thread cannot be started.
  Result<std::shared_ptr<Console>> of(int descriptor);

  /// Readable (an eventfd) when a console that was full has room again.
  const std::shared_ptr<const Descriptor>& wake() const { return wake_; }

  /// Waits until both are written, for each no longer than `patience`. Yields those that did not
  /// take everything, by descriptor.
  std::vector<int> flush(Duration patience);

 private:
  explicit Consoles(Descriptor wake);

  std::shared_ptr<const Descriptor> wake_;
  std::map<int, std::shared_ptr<Console>> consoles_;  // by descriptor, the lower one if shared
};

/// Has our log lines (spdlog's default logger) written by `console` instead of whoever logs.
void log_to(std::shared_ptr<Console> console);

}  // namespace ddprun
