#pragma once

// The agent of one node: the shell around Supervisor. It owns the workers' processes, the store
// they meet at, their streams and the journal, and performs what the core decides.
//
// Everything here runs on the main thread, since a worker dies with the thread that started it.

#include "agent/core/failure_report.hpp"
#include "agent/core/launch_plan.hpp"
#include "agent/core/supervisor.hpp"
#include "agent/core/worker_environment.hpp"
#include "agent/journal.hpp"
#include "agent/streams.hpp"
#include "agent/worker_group.hpp"
#include "base/deadline.hpp"
#include "base/task_scope.hpp"
#include "rendezvous/store_server.hpp"

#include <boost/asio/io_context.hpp>

#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <sys/types.h>

namespace ddprun {

class Agent {
 public:
  /// Opens the log directory and the store's port; starts no worker. `inherited` is what workers
  /// get beside what we set. Fails with kInvalidArgument, kNotFound or kIo, naming the value.
  static Result<std::unique_ptr<Agent>> open(
      asio::io_context& context, const LaunchPlan& plan, std::vector<std::string> inherited);

  ~Agent();
  Agent(const Agent&) = delete;
  Agent& operator=(const Agent&) = delete;

  /// The job, from first to last. Yields the exit status. REQUIRES: called once.
  asio::awaitable<int> run();

  /// One of the signals to handle came.
  void stop_by(int signal);

  /// A signal that is none of those: passed to the workers that have a handler for it.
  void pass_on(int signal) { workers_.pass_on(signal); }

  /// SIGCHLD: somebody below us has ended.
  void reap() { workers_.reap(); }

  /// The front is gone: ends every process below us, then this one. Does not return.
  [[noreturn]] void end_without_front();

 private:
  Agent(
      asio::io_context& context,
      LaunchPlan plan,
      std::vector<std::string> inherited,
      std::unique_ptr<Streams> streams,
      std::unique_ptr<StoreServer> store);

  void feed(const Supervisor::Event& event);
  void perform(const Supervisor::StartAttempt& effect);
  void perform(const Supervisor::Spawn& effect);
  void perform(const Supervisor::Send& effect);
  void perform(const Supervisor::Sweep& effect);
  void perform(const Supervisor::Report& effect);
  void perform(const Supervisor::GiveUp& effect);
  void perform(const Supervisor::Finish& effect);

  void worker_ended(int local_rank, pid_t pid, ProcessEnd end);
  WorkerPlace place_of(int local_rank) const;
  WorkerId id_of(int local_rank, int attempt) const;
  JournalEntry entry(std::string event) const;
  JournalEntry entry(std::string event, int local_rank, pid_t pid) const;
  asio::awaitable<void> keep_time();
  void tell(FailureReport report);

  LaunchPlan plan_;  // its master_port is settled
  std::string host_;
  std::unique_ptr<Streams> streams_;
  std::unique_ptr<StoreServer> store_;  // none: rank 0 hosts its own
  Journal journal_;
  Supervisor supervisor_;
  std::string restart_reason_;
  std::deque<Supervisor::Event> events_;  // that arose while effects were performed
  bool feeding_ = false;
  std::optional<FailureReport> untold_;  // said after the new workers run: a restart comes first
  std::optional<int> exit_status_;
  int stopped_by_ = 0;
  Timer timer_;
  Timer finished_;  // never expires; cancelled by Finish
  TaskScope tasks_;
  WorkerGroup workers_;
};

}  // namespace ddprun
