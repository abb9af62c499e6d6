#pragma once

// Everything that a person is told about the workers of this node: how a round begins, what
// ddprun waits for, how the round failed and what follows. Also writes the events that tools of
// torchrun read. The journal's threads read what is needed for a report and write it.

#include "agent/core/failure_report.hpp"
#include "agent/core/file_timers.hpp"
#include "agent/core/hang_report.hpp"
#include "agent/core/launch_plan.hpp"
#include "agent/core/round_end.hpp"
#include "agent/core/supervisor.hpp"
#include "agent/journal.hpp"
#include "agent/streams.hpp"
#include "agent/torch_events.hpp"
#include "agent/worker_group.hpp"
#include "base/task_scope.hpp"
#include "rendezvous/core/effects.hpp"
#include "rendezvous/errand.hpp"

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <sys/types.h>

namespace ddprun {

class Reporter {
 public:
  /// All of these outlive the reporter.
  struct Sources {
    const LaunchPlan& plan;
    const std::string& host;
    const Streams& streams;
    const WorkerGroup& workers;
    Journal& journal;
    TaskScope& tasks;
  };

  /// `failure_read` gets the last output of a failed worker, once it has been reported here.
  Reporter(const Sources& from, std::function<void(FailureText)> failure_read)
      : from_(from),
        failure_read_(std::move(failure_read)),
        torch_events_(from.plan, from.host, from.journal) {}

  /// Reports what runs, on the node of rank 0, if the plan has a header. `interface` is the one
  /// that workers are told to use; empty: none.
  void round_begins(const effects::StartWorkers& round, const std::string& interface);

  /// If it waits for a debugger, reports which process that is.
  void worker_started(int rank, int local_rank, pid_t pid);
  /// `was_stopped`: because of another one, or of an order.
  void worker_ended(int local_rank, pid_t pid, ProcessEnd end, bool was_stopped) {
    torch_events_.worker_ended(local_rank, pid, end, was_stopped);
  }

  /// The start of a worker waits for the imports of the fork server, or else for a disk.
  void start_is_slow(int rank);
  void fork_server_lost(const std::string& why);

  /// A notice came by `signal`; none: the workers may take as long as Slurm lets them.
  void notice_came(int signal, std::optional<Duration> grace);
  void timer_expired(const FileTimerRequest& timer);
  /// `stacks`: of all threads, for a file.
  void hung(HangReport report, std::string stacks);
  /// `first_rank`: of this node.
  void wait_began(const Supervisor::Waits& wait, int first_rank);
  /// `is_signalled`: a signal has come to end the job.
  void leftovers_found(LeftoverMode mode, bool is_signalled);

  /// Keeps how this node's workers failed, while they are still known.
  void keep(const Supervisor::News& news, const effects::StartWorkers& round);

  /// An order ends the round. `is_reported_elsewhere`: the leader reports why, on the same console.
  void order_came(bool is_reported_elsewhere);

  /// Reports how the round ended, once it is known what follows, and, if it failed here, once
  /// nothing of it runs. `world_size`: of the round.
  void report_end(const RoundEnd& end, int world_size);

  /// The job has ended: reports what has not been reported.
  void finish(int exit_status, int stopped_by);

  /// A person knows why the job ends.
  bool has_reported_end() const { return has_reported_end_; }

  /// Has the disk's thread read the last line of what `failure` wrote (comparable_line). Null:
  /// no descriptor is left to wait for it.
  std::shared_ptr<Errand<std::string>> read_last_line(
      const WorkerFailure& failure, const effects::StartWorkers& round) const;

 private:
  /// The last output of a failed worker, once the disk's thread has read it.
  struct LastOutput {
    RoundId round;
    int rank = 0;
    // Null: no descriptor is left to wait for them.
    std::shared_ptr<Errand<std::vector<TextLine>>> lines;
  };

  bool is_undecided() const { return kept_ && !is_concluded_; }
  void wait_for_children_began(const Supervisor::Waits& wait);
  void conclude(const Outcome& outcome);
  std::optional<LastOutput> report_kept();
  asio::awaitable<void> report_kept_after(Duration pause);
  asio::awaitable<void> pass_on(std::optional<LastOutput> output);

  StderrShown shown(int local_rank) const;
  FailureDetails details_of(const WorkerFailure& failure, const effects::StartWorkers& round) const;
  LastLines last_lines_of(int attempt, const FailureDetails& details) const;

  Sources from_;
  std::function<void(FailureText)> failure_read_;
  TorchEvents torch_events_;
  std::optional<FailureReport> kept_;
  RoundId kept_round_;                  // in which that failed
  bool is_concluded_ = false;           // kept_ says what follows
  bool is_reported_elsewhere_ = false;  // why the round ends, by the leader
  bool has_reported_stop_ = false;      // why, if nothing failed here
  bool has_reported_end_ = false;
};

}  // namespace ddprun
