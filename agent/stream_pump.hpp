#pragma once

// Reads the workers' pipes on one thread of its own (pump_loop.hpp), and hands the bytes on: log
// file first, then the console.

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
  std::shared_ptr<Console> console;  // none if hidden
  ConsoleUse use = ConsoleUse::kHidden;
  std::string prefix;
  bool keeps_tail = false;  // for last_lines()
};

/// Reads a worker's last bytes of stderr (PumpLoop::tail), from any thread, whether or not the pump
/// is still there.
using TailReader = std::function<std::string(TimePoint deadline)>;

/// All functions are for the agent's thread.
class StreamPump {
 public:
  /// `wake` is an eventfd by which the pump is called, by us and by a console that has room again.
  /// Fails with kIo if the kernel gives no descriptors. Starts no thread yet.
  static Result<std::unique_ptr<StreamPump>> create(std::shared_ptr<const Descriptor> wake);

  /// Without finish(), what is in the pipes is lost.
  ~StreamPump();
  StreamPump(const StreamPump&) = delete;
  StreamPump& operator=(const StreamPump&) = delete;

  /// Takes the stream over, until its last writer is gone. Fails with kIo, for want of a thread
  /// too.
  Result<void> add(PipedStream stream);

  TailReader tail(const WorkerId& worker) const;

  /// Forgets the tails of all attempts before `attempt`.
  void forget_before(int attempt);

  /// Reads every pipe to its end, or until `deadline`, hands on what is left, and stops.
  void finish(TimePoint deadline);

 private:
  explicit StreamPump(std::shared_ptr<PumpLoop> loop) : loop_(std::move(loop)) {}

  const std::shared_ptr<PumpLoop> loop_;  // which whoever reads a tail owns as well
  std::thread thread_;
};

}  // namespace ddprun
