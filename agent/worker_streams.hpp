#pragma once

// The streams of one worker, from the decision what they are to be (Streams) to open descriptors.
// Opening waits for the disk of the log directory, so it is for the thread that starts workers.

#include "agent/stream_pump.hpp"
#include "base/descriptor.hpp"
#include "base/error.hpp"

#include <filesystem>
#include <memory>

namespace ddprun {

/// What a worker is to get as stdout or stderr: a file, a pipe of the pump, or our own stream.
struct StreamOrder {
  std::filesystem::path log;       // empty: none
  std::filesystem::path filtered;  // of lines with one of `piped.filters`; empty: none
  bool is_piped = false;           // through `piped`; else the log itself, or our own stream
  PipedStream piped;               // but for its descriptors

  /// Whether the pump writes its log.
  bool is_teed() const { return is_piped && !log.empty(); }
};

/// Both streams of a worker.
struct StreamsOrder {
  std::filesystem::path directory;   // made first; empty: none
  std::shared_ptr<StreamPump> pump;  // of streams that are piped
  bool has_own_pump = false;         // no stream of another worker will use it
  StreamOrder out;
  StreamOrder err;
};

/// The streams of a new worker, close-on-exec. Closed once the worker runs.
struct WorkerStreams {
  Descriptor out;  // empty: inherit
  Descriptor err;  // empty: inherit
};

/// Makes the directory, opens the files, and hands the pipes to the pump. For a thread that may
/// block. Fails with kInvalidArgument if the directory cannot be written, else with kIo, also if no
/// thread can be started.
Result<WorkerStreams> open_streams(StreamsOrder order);

}  // namespace ddprun
