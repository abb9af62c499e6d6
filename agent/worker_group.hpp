#pragma once

// The processes of one node's workers: started, watched, signalled and reaped here, and all of it
// on the main thread, so that no signal can reach a stranger with a reaped worker's number. What to
// do and when is decided by Supervisor; local_workers.cpp hands it on.

#include "agent/core/launch_plan.hpp"
#include "agent/core/process_end.hpp"
#include "agent/core/worker_environment.hpp"
#include "agent/process.hpp"
#include "agent/streams.hpp"
#include "base/deadline.hpp"
#include "base/error.hpp"
#include "base/task_scope.hpp"

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <sys/types.h>

namespace ddprun {

/// What workers get from the environment that started ddprun, beside what we set.
struct Inherited {
  std::vector<std::string> environment;  // "NAME=value"
  std::uint64_t open_files_max = 0;      // the soft limit; 0: the agent's own
};

class WorkerGroup {
 public:
  /// What it reports.
  struct Callbacks {
    // `leaves_group`: others of its process group live on.
    std::function<void(int local_rank, pid_t pid, ProcessEnd end, bool leaves_group)> ended;
    std::function<void()> alone;  // after sweep(): nothing descends from this process any more
  };

  /// `plan`, `streams` and `tasks` outlive the group, which watches its workers in `tasks`.
  WorkerGroup(
      asio::io_context& context,
      const LaunchPlan& plan,
      Inherited inherited,
      Streams& streams,
      TaskScope& tasks);

  /// To be called before anything is started.
  void set_callbacks(Callbacks callbacks) { callbacks_ = std::move(callbacks); }

  /// `look` is called before a death is looked at, for what came before it.
  void before_deaths(std::function<void()> look) { before_deaths_ = std::move(look); }

  /// Descriptors that every worker started from here on holds.
  void hand_down(std::vector<int> descriptors) { handed_down_ = std::move(descriptors); }

  /// Starts one worker. Fails with kNotFound, kNotExecutable, kInvalidArgument or kIo.
  Result<pid_t> start(WorkerPlace place);

  /// To a worker and its process group. Nothing happens if it has ended.
  void send(int local_rank, int signal);

  /// To each worker that has a handler for it.
  void pass_on(int signal);

  /// To everything that descends from this process and is in none of the process groups
  /// `signalled`, and again to what turns up later if it is SIGKILL; 0 to nobody. Once nothing
  /// descends from this process, Callbacks::alone is called, once.
  void sweep(int signal, std::vector<pid_t> signalled);

  /// What descends from this process, for people: "pid 812 (python upload.py), ..."; empty:
  /// nobody.
  static std::string leftovers();

  /// A child that is no worker: `ended` is called once it was reaped.
  void reap_too(pid_t pid, std::function<void(ProcessEnd)> ended) {
    others_.insert_or_assign(pid, std::move(ended));
  }

  /// SIGCHLD: somebody below us has ended, a worker or an orphan that we adopted.
  void reap();

  /// Whether a worker has ended, or is ending, that nobody was told of yet.
  bool is_one_ending() const;

  /// 0: it is not running.
  pid_t pid_of(int local_rank) const { return pids_[static_cast<std::size_t>(local_rank)]; }

  /// Where this worker of the present attempt may say why it failed; empty: nowhere.
  const std::string& error_file_of(int local_rank) const {
    return error_files_[static_cast<std::size_t>(local_rank)];
  }

 private:
  asio::awaitable<void> watch(pid_t pid, asio::posix::stream_descriptor pidfd);
  void ended(pid_t pid, int wait_status);

  asio::io_context& context_;
  const LaunchPlan& plan_;
  Inherited inherited_;
  Streams& streams_;
  TaskScope& tasks_;
  Callbacks callbacks_;
  std::function<void()> before_deaths_;
  std::vector<pid_t> pids_;               // by local rank; 0: not running
  std::vector<std::string> error_files_;  // by local rank
  std::map<pid_t, std::function<void(ProcessEnd)>> others_;
  std::vector<int> handed_down_;
  std::optional<int> sweeping_;  // the signal of the present sweep; none: there is none
};

}  // namespace ddprun
