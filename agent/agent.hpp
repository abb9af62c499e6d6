#pragma once

// The agent of one node: the shell around Supervisor. It owns the workers' processes, the store
// they meet at, their streams and the journal, and performs what the core decides.
//
// Everything here runs on the main thread, since a worker dies with the thread that started it.

#include "agent/core/launch_plan.hpp"
#include "agent/core/supervisor.hpp"
#include "agent/core/worker_environment.hpp"
#include "agent/journal.hpp"
#include "agent/meeting_point.hpp"
#include "agent/reporter.hpp"
#include "agent/streams.hpp"
#include "agent/worker_group.hpp"
#include "base/deadline.hpp"
#include "base/task_scope.hpp"

#include <boost/asio/io_context.hpp>

#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <sys/types.h>

namespace ddprun {

class Consoles;

class Agent {
 public:
  /// Opens the log directory and the store's port, and has log lines go by a thread of their own;
  /// starts no worker. `inherited` is what workers get beside what we set. Fails with
  /// kInvalidArgument, kNotFound or kIo, naming the value.
  static Result<std::unique_ptr<Agent>> open(
      asio::io_context& context, const LaunchPlan& plan, std::vector<std::string> inherited);

  ~Agent();
  Agent(const Agent&) = delete;
  Agent& operator=(const Agent&) = delete;

  /// The job, from first to last. Yields the exit status. What nobody reads, and what a disk does
  /// not take, holds up the end by two seconds each. REQUIRES: called once.
  asio::awaitable<int> run();

  /// One of the signals to handle came.
  void stop_by(int signal);

  /// A signal that is none of those: passed to the workers that have a handler for it.
  void pass_on(int signal) { workers_.pass_on(signal); }

  /// SIGCHLD: somebody below us has ended.
  void reap() { workers_.reap(); }

 private:
  struct Opened {
    std::unique_ptr<Consoles> consoles;
    std::unique_ptr<Streams> streams;
    std::unique_ptr<Journal> journal;
    MeetingPoint meeting;
  };

  Agent(
      asio::io_context& context,
      const LaunchPlan& plan,
      std::vector<std::string> inherited,
      Opened opened);

  asio::awaitable<void> do_the_job();
  int wind_up(int status);
  void feed(const Supervisor::Event& event);
  void perform(const Supervisor::StartAttempt& effect);
  void perform(const Supervisor::Spawn& effect);
  void perform(const Supervisor::Send& effect);
  void perform(const Supervisor::Sweep& effect);
  void perform(const Supervisor::Report& effect);
  void perform(const Supervisor::GiveUp& effect);
  void perform(const Supervisor::Finish& effect);

  void worker_ended(int local_rank, pid_t pid, ProcessEnd end, bool leaves_group);
  WorkerPlace place_of(int local_rank) const;
  JournalEntry entry(std::string event) const;
  JournalEntry entry(std::string event, int local_rank, pid_t pid) const;
  asio::awaitable<void> keep_time();

  const LaunchPlan plan_;
  std::string host_;
  std::unique_ptr<Consoles> consoles_;
  std::unique_ptr<Streams> streams_;
  std::unique_ptr<Journal> journal_;
  MeetingPoint meeting_;
  Supervisor supervisor_;
  std::string restart_reason_;
  std::deque<Supervisor::Event> events_;  // that arose while effects were performed
  bool feeding_ = false;
  std::optional<int> exit_status_;
  int stopped_by_ = 0;
  Timer timer_;
  Timer finished_;  // never expires; cancelled by Finish
  TaskScope tasks_;
  WorkerGroup workers_;
  Reporter reporter_;
};

}  // namespace ddprun
