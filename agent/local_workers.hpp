#pragma once

// The workers of this node, round after round: Supervisor, and what it has done with processes and
// their streams, written down in the journal and, where they fail, told to a person.
//
// Everything here runs on the main thread, since a worker dies with the thread that started it.

#include "agent/core/launch_plan.hpp"
#include "agent/core/supervisor.hpp"
#include "agent/core/worker_environment.hpp"
#include "agent/file_timer.hpp"
#include "agent/journal.hpp"
#include "agent/node_check.hpp"
#include "agent/notice_file.hpp"
#include "agent/reporter.hpp"
#include "agent/streams.hpp"
#include "agent/torch_events.hpp"
#include "agent/worker_group.hpp"
#include "base/deadline.hpp"
#include "base/task_scope.hpp"
#include "rendezvous/core/effects.hpp"
#include "rendezvous/errand.hpp"

#include <boost/asio/io_context.hpp>

#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <sys/types.h>

namespace ddprun {

class LocalWorkers {
 public:
  /// Whom it tells.
  struct Callbacks {
    std::function<void(const WorkerNews&)> news;
    std::function<void(FailureText)> failure_read;
    // A process does not end: this node may start no worker again, and is to leave with this.
    std::function<void(int exit_status)> gave_up;
  };

  /// All of these outlive it; coroutines run in `tasks`.
  struct Dependencies {
    const LaunchPlan& plan;
    const std::string& host;
    Streams& streams;
    Journal& journal;
    NoticeFile& notice_file;
    TaskScope& tasks;
  };

  LocalWorkers(
      asio::io_context& context,
      const Dependencies& dependencies,
      Inherited inherited,
      Callbacks callbacks);

  /// Keeps the supervisor's time, until cancelled.
  asio::awaitable<void> keep_time();
  /// The same for the check of this node.
  asio::awaitable<void> keep_check_time() { return check_.keep_time(); }

  /// Whether this node is to be checked (--node-check).
  bool checks_node() const { return check_.is_wanted(); }
  /// Checks it; `on_done` is told why it had better run no workers, or nothing. REQUIRES:
  /// checks_node(), and nothing runs.
  void check_node(NodeCheck::OnDone on_done);
  void abandon_check();

  /// Every worker holds the lifelines `lines`, and is told to use the network interface
  /// `interface` (empty: of its choice). REQUIRES: nothing of an earlier round runs.
  void start(const effects::StartWorkers& round, std::vector<int> lines, std::string interface);
  /// `is_said_elsewhere`: the leader says why, on the same console.
  void stop(const StopRound& order, bool is_said_elsewhere);
  void kill();

  /// A signal that ends the job, or this node's part in it, came. The second one kills, unless it
  /// is a notice of Slurm's, which says it again when its patience is over. Yields whether it did.
  bool signalled(int signal);
  /// One that does not.
  void pass_on(int signal) { group_.pass_on(signal); }
  void before_deaths(std::function<void()> look) { group_.before_deaths(std::move(look)); }
  /// SIGCHLD: somebody below us has ended.
  void reap() { group_.reap(); }

  /// Workers may set timers by `timers`, which outlives this. To be called before start().
  void use_timers(FileTimer& timers) { timers_ = &timers; }
  /// A process of a worker let a timer expire, and is about to get its signal.
  void timer_expired(const FileTimerRequest& timer);

  /// The job has ended. Tells what has not been told.
  void finish(int exit_status);

  /// All exited with 0, though something that they left behind may still be there.
  bool has_succeeded() const { return supervisor_.has_succeeded(); }
  /// What workers that exited with 0 left behind lives on, and is to outlive this process.
  bool keeps_leftovers() const { return supervisor_.keeps_leftovers(); }
  /// A person knows why the job ends.
  bool has_told_end() const { return has_told_end_; }
  RoundId round() const { return round_.round; }
  /// Where its leader is called.
  const Endpoint& master() const { return round_.master; }

  JournalEntry entry(std::string event) const;

 private:
  void feed(const Supervisor::Event& event);
  void perform(const Supervisor::Spawn& effect);
  void perform(const Supervisor::Send& effect);
  void perform(const Supervisor::Sweep& effect);
  void perform(const Supervisor::News& effect);
  void perform(const Supervisor::GiveUp& effect);
  void perform(const Supervisor::WaitsForWorkers& effect);
  void perform(const Supervisor::WaitsForChildren& effect);
  void perform(const Supervisor::Leftovers& effect);

  void worker_ended(int local_rank, pid_t pid, ProcessEnd end, bool leaves_group);
  void report();
  asio::awaitable<void> report_failure(Duration pause);
  asio::awaitable<void> pass_on(std::optional<Reporter::LastOutput> output);
  bool may_repeat(const Supervisor::News& news) const;
  asio::awaitable<void> await_last_line(std::shared_ptr<Errand<std::string>> line);
  bool began_here() const;
  bool is_suspicious() const;
  void release_news();
  void report(WorkerNews news);
  bool may_be_repeated(int signal) const;
  void report_grace(std::optional<Duration> grace);
  Outcome outcome(const StopRound& order) const;
  WorkerNews news_of(const Supervisor::News& news) const;
  FailureNews failure_of(const WorkerFailure& failure) const;
  int exit_status_without_end(const Supervisor::News& news) const;
  WorkerPlace place_of(int local_rank) const;
  JournalEntry entry(std::string event, int local_rank, pid_t pid) const;

  asio::io_context& context_;
  Dependencies dependencies_;
  Callbacks callbacks_;
  Supervisor supervisor_;
  std::deque<Supervisor::Event> events_;  // that arose while effects were performed
  bool feeding_ = false;
  Timer timer_;
  WorkerGroup group_;
  NodeCheck check_;
  Reporter reporter_;
  TorchEvents torch_events_;
  FileTimer* timers_ = nullptr;  // none: not asked for

  effects::StartWorkers round_;
  std::string interface_;               // that its workers are told to use; empty: none
  std::optional<FailureNews> failed_;   // in this round, here
  std::optional<FailureNews> unsaved_;  // the same after a notice, which is no failure of the job
  std::optional<StopRound> order_;      // that ended this round
  std::optional<WorkerNews> held_;      // that the workers have stopped, until all is known
  WorkerNews told_;                     // the newest
  std::shared_ptr<Errand<std::string>> last_line_;  // of failed_, while it is read
  std::string unfit_;                               // as the newest check of this node says
  bool is_said_elsewhere_ = false;                  // why, by the leader
  bool has_told_stop_ = false;                      // of a reason that is not here
  bool has_told_end_ = false;
  int stopped_by_ = 0;
};

}  // namespace ddprun
