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
// log. Other threads open the files (worker_streams.hpp), read the pipes (stream_pump.hpp) and
// write the console (console.hpp), so none of them blocks the agent. All functions of Streams are
// for the agent's thread, and touch no disk.

#include "agent/core/launch_plan.hpp"
#include "agent/core/worker_id.hpp"
#include "agent/launch_directory.hpp"
#include "agent/worker_streams.hpp"
#include "base/error.hpp"
#include "base/time.hpp"

#include <atomic>
#include <cstddef>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace ddprun {

class Consoles;

/// First reads what a worker that has ended left in its pipes, and passes it to the console; waits
/// for that at most 0.2 s. For a thread that may block and read files; outlives the streams.
using LastLines = std::function<std::string()>;

/// The end of a file, at most `bytes_max`; empty if it cannot be read.
std::string last_bytes(int file, std::size_t bytes_max);

class Streams {
 public:
  /// Starts no thread. Fails with kIo if the kernel has no descriptors left. `consoles` outlive the
  /// streams.
  static Result<std::unique_ptr<Streams>> open(
      const LaunchPlan& plan, LaunchDirectory directory, Consoles& consoles);

  ~Streams();
  Streams(const Streams&) = delete;
  Streams& operator=(const Streams&) = delete;

  /// Files and pipes for a new worker, in `attempt_<n>/<local_rank>/`; open_streams() opens them.
  /// Fails with kIo.
  Result<StreamsOrder> order(const WorkerId& worker);

  /// Its streams were not opened: it has no log.
  void forget(const WorkerId& worker) { logs_.erase(worker); }

  /// For TORCHELASTIC_ERROR_FILE; empty with --log-dir /dev/null.
  std::string error_file_of(const WorkerId& worker) const;

  /// Reads the last lines that this worker wrote to stderr, if they passed through us or a file: at
  /// most `lines_max`, or a whole Python traceback and what follows it (failure_lines_of), each cut
  /// at 4 KiB, without a newline at the end. Only the two newest attempts are kept.
  LastLines last_lines(const WorkerId& worker, int lines_max) const;

  /// Whether a reader of our stderr sees this worker's.
  bool shows_stderr(int local_rank) const;

  /// Whether this worker writes to our own stderr, so that none of it passes through us.
  bool has_own_stderr(int local_rank) const;

  /// Where a person finds this worker's output: a file, or the directory of both its files; empty
  /// if it went only to the console.
  std::string log_of(const WorkerId& worker) const;

  /// The directory of this launch; empty if there is none.
  const std::filesystem::path& directory() const { return directory_.path; }

  /// Reads what is still in the pipes of ended workers and passes it to the consoles. Waits at most
  /// until `deadline` for processes that hold the pipes open and for a full console, and a moment
  /// longer for a disk. REQUIRES: called once; without it, what is in the pipes is lost.
  void finish(TimePoint deadline);

  /// The directory, if it is to be removed when nothing writes there any more: `succeeded`, no
  /// --log-dir was given, and it contains no log. Else one without a path.
  LaunchDirectory removable(bool succeeded) const;

 private:
  struct Logs {  // of one worker; empty if a stream has no file
    std::string out;
    std::string err;
  };

  /// A pump that one worker has to itself.
  struct OwnPump {
    WorkerId worker;
    std::shared_ptr<StreamPump> pump;
  };

  Streams(const LaunchPlan& plan, Consoles& consoles, LaunchDirectory directory);

  Result<StreamOrder> order_one(const WorkerId& worker, int number);
  Result<void> show_on(PipedStream& piped, int number);
  Result<std::shared_ptr<StreamPump>> pump_for(const WorkerId& worker);
  const std::shared_ptr<StreamPump>& pump_of(const WorkerId& worker) const;
  void forget_before(int attempt);
  StreamsPlan::Modes modes(int local_rank) const;
  std::filesystem::path directory_of(const WorkerId& worker) const;
  bool reaches_console(int local_rank) const;

  StreamsPlan plan_;
  std::string role_;
  std::string host_;
  Consoles& consoles_;
  LaunchDirectory directory_;
  bool shares_stdout_;     // several workers of this node write to it
  bool may_outlive_us_;    // processes of workers (--leftover keep)
  bool has_logs_ = false;  // a log file was created
  std::map<WorkerId, Logs> logs_;
  // Each with its own thread, and with each reader of last lines.
  std::shared_ptr<StreamPump> pump_;  // of streams without a log
  std::vector<OwnPump> own_pumps_;
  std::shared_ptr<std::atomic<bool>> disk_is_reported_ = std::make_shared<std::atomic<bool>>();
};

}  // namespace ddprun
