#pragma once

// Where the workers' output goes: log files, console, and the last lines kept for a report.
//
//                       redirect (-r)   worker ────────────────▶ stdout.log   (its own descriptor)
//                       tee (-t)        worker ─▶ pipe ─▶ pump ─▶ stdout.log, then the console
//     stderr, not on a terminal         worker ─▶ pipe ─▶ pump ─▶ our stderr (last 64 KiB kept)
//     stdout of several workers that
//     share a file, a pipe or a socket  worker ─▶ pipe ─▶ pump ─▶ our stdout, in whole lines
//                       otherwise       worker ────────────────▶ our own stream
//
// A redirected stream is the log file itself, so what a worker wrote before a SIGKILL is in its
// log. One thread reads the pipes (stream_pump.hpp), another writes the console (console.hpp), so
// neither blocks the agent. All functions of Streams are for the agent's thread.

#include "agent/core/launch_plan.hpp"
#include "agent/core/worker_id.hpp"
#include "base/descriptor.hpp"
#include "base/error.hpp"
#include "base/time.hpp"

#include <cstddef>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <string>

namespace ddprun {

class Consoles;
class StreamPump;
struct PipedStream;

/// The streams of a new worker, close-on-exec. The agent closes its copies once the worker runs.
struct WorkerStreams {
  Descriptor out;          // empty: inherit
  Descriptor err;          // empty: inherit
  std::string error_file;  // for TORCHELASTIC_ERROR_FILE; empty with --log-dir /dev/null
};

/// First reads what a worker that has ended left in its pipes, and passes it to the console; waits
/// for that at most 0.2 s. For a thread that may block and read files; outlives the streams.
using LastLines = std::function<std::string()>;

/// The end of a file, at most `bytes_max`; empty if it cannot be read.
std::string last_bytes(int file, std::size_t bytes_max);

class Streams {
 public:
  /// Creates `<log-dir>/<run_id>_<random>` unless there are to be no files. Starts no thread. Fails
  /// if a directory cannot be created or written, naming it: with kInvalidArgument if the value is
  /// wrong, else with kIo. `consoles` outlive the streams.
  static Result<std::unique_ptr<Streams>> open(const LaunchPlan& plan, Consoles& consoles);

  ~Streams();
  Streams(const Streams&) = delete;
  Streams& operator=(const Streams&) = delete;

  /// Files and pipes for a new worker, in `attempt_<n>/<local_rank>/`. Fails with kIo, also if no
  /// thread can be started.
  Result<WorkerStreams> attach(const WorkerId& worker);

  /// Reads the last lines that this worker wrote to stderr, if they passed through us or a file: at
  /// most `lines_max`, each cut at 4 KiB, without a newline at the end. Only the two newest
  /// attempts are kept.
  LastLines last_lines(const WorkerId& worker, int lines_max) const;

  /// Whether a reader of our stderr sees this worker's.
  bool shows_stderr(int local_rank) const;

  /// Whether this worker writes to our own stderr, so that none of it passes through us.
  bool has_own_stderr(int local_rank) const;

  /// Where a person finds this worker's output: a file, or the directory of both its files; empty
  /// if it went only to the console.
  std::string log_of(const WorkerId& worker) const;

  /// The directory of this launch; empty if there is none.
  const std::filesystem::path& directory() const { return directory_; }

  /// Reads what is still in the pipes of ended workers and passes it to the consoles. Waits at most
  /// until `deadline` for processes that hold the pipes open and for a full console. REQUIRES:
  /// called once; without it, what is in the pipes is lost.
  void finish(TimePoint deadline);

  /// Removes the directory if that is ours to do: `succeeded`, no --log-dir was given, and it
  /// contains no log. Call it last, when nothing writes there any more.
  void tidy_up(bool succeeded);

 private:
  struct Logs {  // of one worker; empty if a stream has no file
    std::string out;
    std::string err;
  };

  Streams(
      const LaunchPlan& plan, Consoles& consoles, std::filesystem::path directory, bool is_ours);

  Result<Descriptor> attach_one(const WorkerId& worker, int number);
  Result<Descriptor> attach_pipe(PipedStream piped, int number);
  StreamsPlan::Modes modes(int local_rank) const;
  std::filesystem::path directory_of(const WorkerId& worker) const;
  bool reaches_console(int local_rank) const;

  StreamsPlan plan_;
  std::string role_;
  std::string host_;
  Consoles& consoles_;
  std::filesystem::path directory_;
  bool shares_stdout_;     // several workers of this node write to it
  bool may_outlive_us_;    // processes of workers (--leftover keep)
  bool is_ours_;           // created under $TMPDIR, without --log-dir
  bool has_logs_ = false;  // a log file was created
  std::map<WorkerId, Logs> logs_;
  std::shared_ptr<StreamPump> pump_;  // with each reader of last lines
};

}  // namespace ddprun
