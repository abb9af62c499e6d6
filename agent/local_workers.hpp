#pragma once

// The workers of this node, round after round: performs what Supervisor decides, with processes
// (WorkerGroup) and their streams, and records it in the journal. Reporter tells a person,
// NewsSender the rendezvous.
//
// Everything here runs on the main thread.

#include "agent/core/hang_report.hpp"
#include "agent/core/launch_plan.hpp"
#include "agent/core/round_end.hpp"
#include "agent/core/supervisor.hpp"
#include "agent/core/worker_environment.hpp"
#include "agent/file_timer.hpp"
#include "agent/journal.hpp"
#include "agent/news_sender.hpp"
#include "agent/node_check.hpp"
#include "agent/notice_file.hpp"
#include "agent/reporter.hpp"
#include "agent/streams.hpp"
#include "agent/worker_group.hpp"
#include "agent/worker_steps.hpp"
#include "base/deadline.hpp"
#include "base/event_queue.hpp"
#include "base/task_scope.hpp"
#include "rendezvous/core/effects.hpp"

#include <boost/asio/io_context.hpp>

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include <sys/types.h>

namespace ddprun {

class LocalWorkers {
 public:
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
    WorkerStarter& starter;
    Journal& journal;
    NoticeFile& notice_file;
    WorkerSteps& steps;
    TaskScope& tasks;
  };

  LocalWorkers(
      asio::io_context& context,
      const Dependencies& dependencies,
      Inherited inherited,
      Callbacks callbacks);

  /// Keeps the supervisor's time, until cancelled.
  asio::awaitable<void> keep_time();
  /// The same for the node check.
  asio::awaitable<void> keep_check_time() { return check_.keep_time(); }

  /// Whether this node is to be checked (--node-check).
  bool checks_node() const { return check_.is_wanted(); }
  /// Checks it; `on_done` gets why it should run no workers, or nothing. REQUIRES: checks_node(),
  /// and nothing runs.
  void check_node(NodeCheck::OnDone on_done) { news_.check_node(std::move(on_done)); }
  void abandon_check() { news_.abandon_check(); }

  /// Begins the imports of --preload, if it is asked for.
  void preload() { group_.preload(); }

  /// Every worker holds the lifelines `lines`, and is told to use the network interface
  /// `interface` (empty: it chooses). REQUIRES: nothing of an earlier round runs.
  void start(const effects::StartWorkers& round, std::vector<int> lines, std::string interface);
  /// `is_reported_elsewhere`: the leader reports why, on the same console.
  void stop(const StopRound& order, bool is_reported_elsewhere);
  void kill();

  /// A signal came that ends the job, or this node's part in it. The second one kills, unless it is
  /// a notice from Slurm, which repeats it when its patience is over. Yields whether it did.
  bool signalled(int signal);
  /// A signal that does not end the job.
  void pass_on(int signal) { group_.pass_on(signal); }
  void before_deaths(std::function<void()> look) { group_.before_deaths(std::move(look)); }
  /// SIGCHLD: a process below us has ended.
  void reap() { group_.reap(); }

  /// Workers may set timers by `timers`, which outlives this. Called before start().
  void use_timers(FileTimer& timers) { timers_ = &timers; }
  /// A process of a worker let a timer expire, and is about to get its signal.
  void timer_expired(const FileTimerRequest& timer);

  /// Training hangs: reports it, with `stacks` of all threads, and ends who is to blame if it is to
  /// restart.
  void hung(const HangReport& report, std::string stacks);
  /// A step was made after all.
  void training_resumed();
  /// 0: it is not running.
  pid_t pid_of(int local_rank) const { return group_.pid_of(local_rank); }

  /// The job has ended: reports what has not been reported.
  void finish(int exit_status) { reporter_.finish(exit_status, end_.stopped_by); }

  /// All exited with 0, though what they left behind may still run.
  bool has_succeeded() const { return supervisor_.has_succeeded(); }
  /// What workers that exited with 0 left behind lives on, and is to outlive this process.
  bool keeps_leftovers() const { return supervisor_.keeps_leftovers(); }
  /// A person knows why the job ends.
  bool has_reported_end() const { return reporter_.has_reported_end(); }
  /// The present round, or the last one.
  RoundId round() const { return place_.round.round; }
  /// The leader's endpoint in the present round.
  const Endpoint& master() const { return place_.round.master; }

  JournalEntry entry(std::string event) const;

 private:
  void feed(const Supervisor::Event& event);
  void perform(const Supervisor::Spawn& effect);
  void perform(const Supervisor::CancelSpawn& effect);
  void perform(const Supervisor::SlowSpawn& effect) {
    reporter_.start_is_slow(first_rank() + effect.local_rank);
  }
  void perform(const Supervisor::Send& effect) { group_.send(effect.local_rank, effect.signal); }
  void perform(const Supervisor::Sweep& effect) {
    group_.sweep(effect.signal, effect.signalled_groups);
  }
  void perform(const Supervisor::News& effect);
  void perform(const Supervisor::GiveUp& effect);
  void perform(const Supervisor::Waits& effect) { reporter_.wait_began(effect, first_rank()); }
  void perform(const Supervisor::Leftovers& effect) {
    reporter_.leftovers_found(effect.mode, end_.stopped_by != 0);
  }

  void worker_started(int local_rank, const Result<pid_t>& pid);
  void worker_ended(int local_rank, pid_t pid, ProcessEnd end, bool leaves_group);
  void node_checked(const std::string& unfit);
  void notify_workers(int notice);
  bool may_be_repeated(int signal) const;
  int first_rank() const { return place_.round.place.first_rank; }
  WorkerNews news_of(const Supervisor::News& news) const;
  FailureNews failure_of(const WorkerFailure& failure) const;
  JournalEntry entry(std::string event, int local_rank, pid_t pid) const;

  Dependencies dependencies_;
  Callbacks callbacks_;
  Supervisor supervisor_;
  EventQueue<Supervisor::Event> events_;
  Timer timer_;
  WorkerGroup group_;
  NodeCheck check_;
  RoundEnd end_;
  Reporter reporter_;
  NewsSender news_;
  FileTimer* timers_ = nullptr;  // none: not asked for
  WorkerPlace place_;            // of each worker of the present round, but for its local rank
};

}  // namespace ddprun
