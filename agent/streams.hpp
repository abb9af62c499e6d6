#pragma once

// Where the workers' output goes: log files, console, and the last lines kept for a report.
//
// A redirected stream is the log file itself, opened for append and handed to the worker, so that
// nothing stands between a worker and its log. Tee'd and watched streams are pipes, read by one
// thread of this class: neither a slow console nor a slow disk holds up the agent.

#include "agent/core/launch_plan.hpp"
#include "base/descriptor.hpp"
#include "base/error.hpp"

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

namespace ddprun {

/// Which worker, in which attempt.
struct WorkerId {
  int attempt = 0;     // restarts so far
  int local_rank = 0;  // 0 <= local_rank < workers of this node
  int rank = 0;        // in the world
};

/// What a worker is started with. The agent closes its copies once the worker runs.
struct WorkerStreams {
  Descriptor out;          // empty: inherit
  Descriptor err;          // empty: inherit
  std::string error_file;  // for TORCHELASTIC_ERROR_FILE; empty with --log-dir /dev/null
};

class Streams {
 public:
  /// Makes `<log-dir>/<run_id>_<random>` unless there are to be no files. Fails with kIo where a
  /// directory cannot be made or written, naming it.
  static Result<std::unique_ptr<Streams>> open(const LaunchPlan& plan);

  virtual ~Streams() = default;
  Streams() = default;
  Streams(const Streams&) = delete;
  Streams& operator=(const Streams&) = delete;

  /// Files and pipes for one worker about to start. Fails with kIo.
  virtual Result<WorkerStreams> attach(const WorkerId& worker) = 0;

  /// The last lines this worker wrote to stderr, where they passed through us or a file; at most
  /// `lines_max`, each cut at 4 KiB.
  virtual std::string last_lines(const WorkerId& worker, int lines_max) const = 0;

  /// Where a person finds this worker's output; empty if it went to the console alone.
  virtual std::string log_of(const WorkerId& worker) const = 0;

  /// The directory of this launch; empty if there is none.
  virtual std::filesystem::path directory() const = 0;

  /// Writes what is still in the pipes of ended workers, waiting at most until `deadline` for
  /// grandchildren that hold them open, then removes the directory if it is ours to remove
  /// (`succeeded`, not asked for by --log-dir, and no log in it).
  virtual void finish(TimePoint deadline, bool succeeded) = 0;
};

}  // namespace ddprun
