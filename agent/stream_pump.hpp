#pragma once

// Reads pipes of workers on a separate thread, and passes the bytes on: to the log file first, then
// to the console. A worker whose output goes to files has a pump of its own, so that a disk that
// does not respond stops only the output of that worker.
//
// The log file gets the bytes as they arrive, so it has every line that the console has. The
// console gets whole lines, so lines of two workers never mix. An unfinished line is passed on
// after 0.2 s, a progress bar (a line with a carriage return) at once. If the console is too slow,
// tee'd lines are left out there, and counted, since the log has them. A stream that goes nowhere
// else is held back instead, as if its worker wrote to the console itself; so is a tee'd stream if
// the console is a file, because a file is as fast as the log.

#include "agent/core/line_splitter.hpp"
#include "agent/core/tail.hpp"
#include "agent/core/worker_id.hpp"
#include "base/descriptor.hpp"
#include "base/error.hpp"
#include "base/read_buffer.hpp"
#include "base/time.hpp"

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun {

class Console;

/// How a stream's lines appear on our own stdout or stderr.
enum class ConsoleUse : std::uint8_t {
  kHidden,
  kPrefixed,  // tee: a log has the lines too
  kPassed,    // byte for byte; no log has them
};

/// One pipe of one worker, and where its bytes go.
struct PipedStream {
  WorkerId worker{};
  Descriptor pipe;       // the read end, non-blocking
  Descriptor log;        // empty: none
  std::string log_path;  // for messages
  Descriptor filtered;   // for lines with one of `filters`; empty: none
  std::vector<std::string> filters;
  std::shared_ptr<Console> console;  // null if hidden
  ConsoleUse use = ConsoleUse::kHidden;
  std::string prefix;
  bool keeps_tail = false;  // for tail()
};

/// Any thread may call the functions below.
class StreamPump : public std::enable_shared_from_this<StreamPump> {
 public:
  /// `disk_is_reported` is shared by the pumps of a launch: a log that could not be written has
  /// been reported. Fails with kIo if the kernel has no descriptors left. Starts no thread yet.
  static Result<std::shared_ptr<StreamPump>> create(
      std::shared_ptr<std::atomic<bool>> disk_is_reported);

  ~StreamPump() = default;
  StreamPump(const StreamPump&) = delete;
  StreamPump& operator=(const StreamPump&) = delete;

  /// Takes the stream over, until its last writer has closed it. Fails with kIo, also if no thread
  /// can be started. REQUIRES: neither expect_no_more() nor finish_by() was called.
  Result<void> add(PipedStream stream);

  /// The thread ends with the last of the streams that were added.
  void expect_no_more();

  /// The last bytes of the worker's stderr, after reading its pipes; waits for that at most until
  /// `deadline`. The console then has what was in them, including an unfinished line. Empty if its
  /// stderr does not pass through here.
  std::string tail(const WorkerId& worker, TimePoint deadline);

  /// Forgets the tails of all attempts before `attempt`.
  void forget_before(int attempt);

  /// Reads every pipe to its end, or until `deadline`, passes on the rest, and stops.
  void finish_by(TimePoint deadline);

  /// Waits until the thread has stopped, if one was started, at most until `deadline`. Returns
  /// whether it has; otherwise it is abandoned, and owns what it touches.
  bool wait_until_finished(TimePoint deadline);

 private:
  /// A stream with its unfinished line.
  struct Stream {
    PipedStream to;
    LineSplitter lines;
    std::optional<TimePoint> show_by;  // when its unfinished line is passed on anyway
    bool is_open = false;  // part of its unfinished line was passed on (append_prefixed)
  };
  using StreamsByPipe = std::map<int, Stream>;

  /// Of other threads, and the tails, which all threads need.
  struct Requests {
    std::mutex mutex;                 // for all below
    std::condition_variable changed;  // something was drained, or the thread has stopped
    bool is_served = false;           // the pump's thread is running
    bool no_more = false;             // streams will arrive
    StreamsByPipe arriving;
    std::set<WorkerId> to_drain;
    std::map<WorkerId, Tail> tails;
    std::optional<TimePoint> finish_by;
  };

  enum class Read : std::uint8_t { kSome, kNothing, kEnded };

  explicit StreamPump(std::shared_ptr<std::atomic<bool>> disk_is_reported);

  bool watch(int pipe) const;
  void call() const;

  // For the pump's thread, as is all data below `requests_`.
  void run();
  bool serve_requests();
  void read_ready(int pipe);
  void drain(Stream& stream);
  void resume_held_back();
  void show_unfinished_lines(TimePoint now);
  int patience_ms() const;
  bool has_room_for(const Stream& stream) const;
  bool can_take(const Stream& stream);
  Read read_once(Stream& stream);
  void take(Stream& stream, std::string_view bytes);
  void hold(Stream& stream, bool is_new);
  void write_log(Stream& stream, std::string_view bytes);
  void show(Stream& stream, std::string_view lines);
  void show_rest(Stream& stream);
  StreamsByPipe::iterator end(StreamsByPipe::iterator stream);

  const Descriptor poller_;
  const std::shared_ptr<const Descriptor> wake_;  // an eventfd; full consoles write to it as well
  const std::shared_ptr<std::atomic<bool>> disk_is_reported_;
  Requests requests_;
  std::optional<TimePoint> finish_by_;
  StreamsByPipe streams_;
  std::set<int> held_back_;           // pipes that wait for room on the console
  bool resumes_later_ = false;        // the kernel did not watch some of them again
  std::optional<TimePoint> show_by_;  // the earliest of Stream::show_by, or a time before it
  ReadBuffer buffer_;
  std::string batch_;
};

}  // namespace ddprun
