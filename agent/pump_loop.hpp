#pragma once

// The pump's thread: what it reads, and where the bytes go. Others talk to it by PumpRequests.
//
// The log file gets the bytes as they arrive, so it has every line that the console has. The
// console gets whole lines, so lines of two workers never mix. An unfinished line is passed on
// after 0.2 s, a progress bar (a line with a carriage return) at once. If the console is too slow,
// tee'd lines are left out there, and counted, since the log has them. A stream that goes nowhere
// else is held back instead, as if its worker wrote to the console itself; so is a tee'd stream if
// the console is a file, because a file is as fast as the log.

#include "agent/core/line_splitter.hpp"
#include "agent/core/tail.hpp"
#include "agent/stream_pump.hpp"
#include "agent/streams.hpp"
#include "base/descriptor.hpp"
#include "base/error.hpp"
#include "base/read_buffer.hpp"
#include "base/time.hpp"

#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>

namespace ddprun {

/// A stream in the pump, with its unfinished line.
struct PumpedStream {
  PipedStream to;
  LineSplitter lines;
  std::optional<TimePoint> show_by;  // when its unfinished line is passed on anyway
  bool is_open = false;              // part of its unfinished line was passed on (append_prefixed)
};
using PumpedStreams = std::map<int, PumpedStream>;  // by descriptor of the pipe

/// Requests of other threads, and the tails, which all threads need.
struct PumpRequests {
  std::mutex mutex;  // for all below
  std::condition_variable drained;
  bool is_served = false;  // the thread is running
  PumpedStreams arriving;
  std::set<WorkerId> to_drain;
  std::map<WorkerId, Tail> tails;
  std::optional<TimePoint> finish_by;
};

class PumpLoop {
 public:
  /// `wake` becomes readable when there is a request, or room on a console. Fails with kIo if the
  /// kernel has no descriptors left.
  static Result<std::unique_ptr<PumpLoop>> create(std::shared_ptr<const Descriptor> wake);

  /// Reads until PumpRequests::finish_by, or until every pipe has ended after that is set.
  void run();

  /// Makes the loop handle its requests. From any thread.
  void call() const;

  /// The last bytes of the worker's stderr, after reading its pipes; waits for that at most until
  /// `deadline`. The console then has what was in them, including an unfinished line. Empty if its
  /// stderr does not pass through here. From any thread but the loop's.
  std::string tail(const WorkerId& worker, TimePoint deadline);

  /// Adds `pipe`, or `wake` again, to the descriptors that the loop waits for. From any thread.
  bool watch(int pipe) const;

  PumpRequests requests;

 private:
  enum class Read : std::uint8_t { kSome, kNothing, kEnded };

  PumpLoop(Descriptor poller, std::shared_ptr<const Descriptor> wake);

  bool serve_requests();
  void read_ready(int pipe);
  void drain(PumpedStream& stream);
  void resume_held_back();
  void show_unfinished_lines(TimePoint now);
  int patience_ms() const;
  bool can_take(const PumpedStream& stream);
  Read read_once(PumpedStream& stream);
  void take(PumpedStream& stream, std::string_view bytes);
  void hold(PumpedStream& stream, bool is_new);
  void write_log(PumpedStream& stream, std::string_view bytes);
  void show(PumpedStream& stream, std::string_view lines);
  void show_rest(PumpedStream& stream);
  PumpedStreams::iterator end(PumpedStreams::iterator stream);

  const Descriptor poller_;
  const std::shared_ptr<const Descriptor> wake_;
  std::optional<TimePoint> finish_by_;
  PumpedStreams streams_;
  std::set<int> held_back_;           // pipes that wait for room on the console
  std::optional<TimePoint> show_by_;  // the earliest of PumpedStream::show_by, or a time before it
  ReadBuffer buffer_;
  std::string batch_;
  bool told_of_bad_disk_ = false;
};

}  // namespace ddprun
