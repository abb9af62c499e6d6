#pragma once

// Our own stdout and stderr. A separate thread writes each, so a stopped terminal, or a pager that
// nobody reads, never blocks the agent, the pump or a worker.
//
// All that the agent prints while a job runs goes through here: the workers' lines come from the
// pump, reports and log lines from spdlog. Output appears in the order in which it was appended.

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

/// With each slow disk, pipe and console, at the end of an agent.
inline constexpr auto kEndPatience = std::chrono::seconds(2);

/// One of the two. Any thread may call its functions.
class Console {
 public:
  /// Limit of the queue; beyond it lines are left out, or a stream is held back.
  static constexpr std::size_t kQueueBytesMax = std::size_t{4} * 1024 * 1024;

  /// Writes to `descriptor`, which stays open as long as the process. Fails with kIo if no thread
  /// can be started.
  static Result<std::shared_ptr<Console>> open(int descriptor);
  /// Discards what is not yet written; call flush() first.
  ~Console();
  Console(const Console&) = delete;
  Console& operator=(const Console&) = delete;

  /// Whether this is a regular file. No reader can stop a file, so writers wait for it, and nothing
  /// is left out.
  bool is_file() const { return is_file_; }

  /// Whether append() may be called. If not, `wake`, an eventfd, becomes readable when it may.
  bool has_room(const std::shared_ptr<const Descriptor>& wake);

  /// Queues a worker's output. REQUIRES: has_room() returned true; one call of each thread may
  /// exceed the limit.
  void append(std::string_view lines);

  /// Counts lines that were left out because the queue was full; the console gets the count later.
  void skip(std::size_t lines);

  /// Queues whole lines of spdlog's, starting on a new line; drops them if there is no room.
  void write(std::string_view lines);

  /// Waits until everything is written or the console is gone, at most until `deadline`. Returns
  /// false if the console takes no more.
  bool flush(TimePoint deadline);

  /// Whether everything written so far was taken: the reader stayed, and the disk had room.
  bool is_whole() const;

 private:
  struct Shared;

  Console(std::shared_ptr<Shared> shared, std::unique_ptr<WriterThread> writer, bool is_file);

  void write_soon();

  // Two owners: the writer may have to be abandoned in the middle of a write.
  std::shared_ptr<Shared> shared_;
  std::unique_ptr<WriterThread> writer_;
  bool is_file_;
};

/// Both consoles. For the agent's thread; each Console that it returns may outlive it.
class Consoles {
 public:
  /// Starts no thread yet.
  Consoles() = default;
  /// Gives log lines and reports back first, if flush() has not.
  ~Consoles();
  Consoles(const Consoles&) = delete;
  Consoles& operator=(const Consoles&) = delete;

  /// The console for our `descriptor`, 1 or 2: the same one if both are one file, terminal or pipe
  /// (2>&1). Fails with kIo if its thread cannot be started.
  Result<std::shared_ptr<Console>> of(int descriptor);

  /// Makes stderr's console write log lines and reports (log_to()), so that no caller waits for a
  /// reader. REQUIRES: start_log() was called. Fails as of() does.
  Result<void> take_log();

  /// Waits until both are written, at most `patience` for each. Returns the descriptors of those
  /// that did not take everything. Log lines and reports from now on are written by their callers.
  std::vector<int> flush(Duration patience);

 private:
  std::map<int, std::shared_ptr<Console>> consoles_;  // by descriptor, the lower one if shared
  bool has_log_ = false;
};

}  // namespace ddprun
