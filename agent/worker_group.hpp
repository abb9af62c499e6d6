#pragma once

// The processes of one node's workers: started by a thread of their own (WorkerStarter), and
// watched, signalled and reaped here on the main thread, so that no signal can reach a stranger
// with a reaped worker's number. What to do and when is decided by Supervisor; local_workers.cpp
// hands it on.

#include "agent/core/launch_plan.hpp"
#include "agent/core/process_end.hpp"
#include "agent/core/worker_environment.hpp"
#include "agent/descendants.hpp"
#include "agent/fork_server.hpp"
#include "agent/oom_kills.hpp"
#include "agent/process.hpp"
#include "agent/streams.hpp"
#include "agent/worker_starter.hpp"
#include "base/deadline.hpp"
#include "base/error.hpp"
#include "base/task_scope.hpp"

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
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
    // Fails with kNotFound, kNotExecutable, kInvalidArgument or kIo.
    std::function<void(int local_rank, Result<pid_t> pid)> started;
    // `leaves_group`: others of its process group live on.
    std::function<void(int local_rank, pid_t pid, ProcessEnd end, bool leaves_group)> ended;
    std::function<void()> alone;  // after sweep(): nothing descends from this process any more
    std::function<void()> before_deaths = nullptr;  // to look at what came before a death
    // Workers are executed from here on, and not forked.
    std::function<void(const std::string& why)> fork_server_lost = nullptr;
  };

  /// All of these outlive the group, which watches its workers in `tasks`.
  struct Dependencies {
    const LaunchPlan& plan;
    Streams& streams;
    WorkerStarter& starter;
    TaskScope& tasks;
  };

  WorkerGroup(asio::io_context& context, const Dependencies& dependencies, Inherited inherited);

  /// To be called before anything is started.
  void set_callbacks(Callbacks callbacks) { callbacks_ = std::move(callbacks); }

  /// `look` is called before a death is looked at, for what came before it.
  void before_deaths(std::function<void()> look) { callbacks_.before_deaths = std::move(look); }

  /// Begins the imports of --preload; workers that are started before they are done wait for them.
  void preload();
  bool is_importing() const { return fork_server_ && fork_server_->is_importing(); }

  /// The workers started from here on are those of a round, and hold the descriptors `lines`.
  /// REQUIRES: no worker runs, or is being started.
  void begin_round(std::vector<int> lines);

  /// Starts one worker, after those of the round that were ordered before; Callbacks::started is
  /// called later, once. If one of those cannot be started, this one is left for cancel_start().
  void start(WorkerPlace place);

  /// Whether the start was given up before a process was made. Else Callbacks::started is still
  /// called. REQUIRES: that worker is being started.
  bool cancel_start(int local_rank);

  /// Starts a child that is no worker. `started` is called later, once, and `ended` once the
  /// process was reaped. Yields a number for WorkerStarter::cancel().
  std::int64_t start_too(
      StartOrder order,
      std::function<void(Result<pid_t>)> started,
      std::function<void(ProcessEnd)> ended);
  bool cancel_start_too(std::int64_t start) { return dependencies_.starter.cancel(start); }

  /// To a worker and its process group. Nothing happens if it has ended.
  void send(int local_rank, int signal);

  /// To each worker that has a handler for it, and to those that are being started as soon as they
  /// are known, if they have one then.
  void pass_on(int signal);

  /// To everything that descends from this process and is in none of the process groups
  /// `signalled`, and again to what turns up later if it is SIGKILL; 0 to nobody. Once nothing
  /// descends from this process, Callbacks::alone is called, once.
  void sweep(int signal, const std::vector<pid_t>& signalled);

  /// What descends from this process, for people: "pid 812 (python upload.py), ..."; empty:
  /// nobody.
  std::string leftovers() const;

  /// SIGCHLD: somebody below us has ended, a worker or an orphan that we adopted.
  void reap();

  /// Whether a worker has ended, or is ending, that nobody was told of yet.
  bool is_one_ending() const;

  /// 0: it is not running.
  pid_t pid_of(int local_rank) const { return pids_[static_cast<std::size_t>(local_rank)]; }

 private:
  struct Round {
    WorkerStarter::Series starts = WorkerStarter::kNoSeries;  // of all its workers
    std::vector<std::int64_t> orders;                         // by local rank: its start
    std::vector<int> lines;                                   // that every worker holds
    std::set<int> signals;  // passed on since some worker has been in the middle of its start
    std::vector<WorkerPlace> held;  // that wait for the fork server's imports
  };

  void begin_held();
  void fork_server_lost(const std::string& why);
  void begin(WorkerPlace place);
  Result<StartOrder> order_for(WorkerPlace place, const WorkerId& worker) const;
  void started(const WorkerId& worker, Result<Process> process);
  asio::awaitable<void> watch(pid_t pid, asio::posix::stream_descriptor pidfd);
  void reap_known();
  bool is_alone() const;
  Spared spared(std::span<const pid_t> groups = {}) const;
  void ended(pid_t pid, int wait_status);

  asio::io_context& context_;
  Dependencies dependencies_;
  Inherited inherited_;
  Callbacks callbacks_;
  std::unique_ptr<ForkServer> fork_server_;  // none: not asked for, or it cannot serve
  std::vector<pid_t> pids_;                  // by local rank; 0: not running
  Round round_;
  std::map<pid_t, std::function<void(ProcessEnd)>> others_;
  OomKills oom_kills_;
  std::optional<int> sweeping_;  // the signal of the present sweep; none: there is none
};

}  // namespace ddprun
