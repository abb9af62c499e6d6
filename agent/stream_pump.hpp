#pragma once

// Reads the workers' pipes on one thread of its own: log file first, then the console.
//
// The log file gets the bytes as they come, so it never lacks a line that the console had. The
// console gets whole lines: those of two workers never mix. Where the console cannot keep up, tee'd
// lines are left out there, and counted, since the log has them. A stream that goes nowhere else is
// held back, as if its worker wrote to the console itself; so is a tee'd one if the console is a
// file, which is no slower than the log.

#include "agent/console.hpp"
#include "agent/core/line_splitter.hpp"
#include "agent/core/tail.hpp"
#include "agent/streams.hpp"
#include "base/descriptor.hpp"
#include "base/error.hpp"
#include "base/time.hpp"

#include <array>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

namespace ddprun {

/// What a stream's lines look like on our own stdout or stderr.
enum class ConsoleUse : std::uint8_t {
  kHidden,
  kPrefixed,  // tee: a log has them too
  kPassed,    // byte for byte, and nowhere else
};

/// One pipe of one worker, and where its bytes go.
struct PipedStream {
  WorkerId worker{};
  Descriptor pipe;       // the read end, non-blocking
  Descriptor log;        // empty: none
  std::string log_path;  // for messages
  Descriptor filtered;   // for lines with one of `filters`; empty: none
  std::vector<std::string> filters;
  int console = 1;  // our descriptor: 1 or 2
  ConsoleUse use = ConsoleUse::kHidden;
  std::string prefix;
  bool keeps_tail = false;  // for last_lines()
};

/// All functions are for the agent's thread.
class StreamPump {
 public:
  /// Fails with kIo if the kernel gives no descriptors. Starts no thread yet.
  static Result<std::unique_ptr<StreamPump>> create();

  /// Without finish(), what is in the pipes is lost.
  ~StreamPump();
  StreamPump(const StreamPump&) = delete;
  StreamPump& operator=(const StreamPump&) = delete;

  /// Takes the stream over, until its last writer is gone. Fails with kIo.
  Result<void> add(PipedStream stream);

  /// The last bytes of the worker's stderr, after a look into its pipe; waits for that until
  /// `deadline` at most. Empty if it does not pass through here.
  std::string tail(const WorkerId& worker, TimePoint deadline);

  /// Forgets the tails of all attempts before `attempt`.
  void forget_before(int attempt);

  /// Reads every pipe to its end, or until `deadline`, writes what is left, and stops.
  void finish(TimePoint deadline);

 private:
  struct Stream {
    PipedStream to;
    LineSplitter lines;
  };
  using StreamMap = std::map<int, Stream>;  // by descriptor of the pipe
  enum class Read : std::uint8_t { kSome, kNothing, kEnded };

  StreamPump(Descriptor poller, Descriptor wake);

  void call();  // the thread's attention
  bool watch(int pipe) const;

  // On the thread from here on.
  void run();
  bool serve_requests();
  void drain(Stream& stream);
  void resume_held_back();
  void show_unfinished_lines();
  int patience_ms() const;
  bool has_room_for(const Stream& stream);
  bool can_take(const Stream& stream);
  Read read_once(Stream& stream);
  void take(Stream& stream, std::string_view bytes);
  void write_log(Stream& stream, std::string_view bytes);
  void show(Stream& stream, std::string_view lines);
  StreamMap::iterator end(StreamMap::iterator stream);
  Console& console(int descriptor);

  const Descriptor poller_;
  const Descriptor wake_;
  std::thread thread_;

  std::mutex mutex_;  // for the requests and tails below
  std::condition_variable drained_;
  std::set<WorkerId> to_drain_;
  std::optional<TimePoint> finish_by_;
  std::map<WorkerId, Tail> tails_;
  StreamMap arriving_;

  // Of the thread alone.
  std::optional<TimePoint> finish_by_of_thread_;
  StreamMap streams_;
  std::set<int> held_back_;           // pipes that wait for room on the console
  std::optional<TimePoint> show_by_;  // when unfinished lines are passed on nevertheless
  std::map<int, std::unique_ptr<Console>> consoles_;
  std::vector<char> buffer_;
  std::string batch_;
  bool told_of_bad_disk_ = false;
};

}  // namespace ddprun
