#pragma once

// Reads the workers' pipes on one separate thread (pump_loop.hpp), and passes the bytes on: to the
// log file first, then to the console.

#include "agent/streams.hpp"
#include "base/descriptor.hpp"
#include "base/error.hpp"
#include "base/time.hpp"

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace ddprun {

class Console;
class PumpLoop;

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
  bool keeps_tail = false;  // for last_lines()
};

/// Reads the last bytes of a worker's stderr (PumpLoop::tail), from any thread, even if the pump no
/// longer exists.
using TailReader = std::function<std::string(TimePoint deadline)>;

/// All functions are for the agent's thread.
class StreamPump {
 public:
  /// `wake` is an eventfd that wakes the pump; we and a console that has room again write to it.
  /// Fails with kIo if the kernel has no descriptors left. Starts no thread yet.
  static Result<std::unique_ptr<StreamPump>> create(std::shared_ptr<const Descriptor> wake);

  /// Without finish(), what is in the pipes is lost.
  ~StreamPump();
  StreamPump(const StreamPump&) = delete;
  StreamPump& operator=(const StreamPump&) = delete;

  /// Takes the stream over, until its last writer has closed it. Fails with kIo, also if no thread
  /// can be started.
  Result<void> add(PipedStream stream);

  TailReader tail(const WorkerId& worker) const;

  /// Forgets the tails of all attempts before `attempt`.
  void forget_before(int attempt);

  /// Reads every pipe to its end, or until `deadline`, passes on the rest, and stops.
  void finish(TimePoint deadline);

 private:
  explicit StreamPump(std::shared_ptr<PumpLoop> loop) : loop_(std::move(loop)) {}

  const std::shared_ptr<PumpLoop> loop_;  // a reader of a tail owns it too
  std::thread thread_;
};

}  // namespace ddprun
