#pragma once

// Supervisor: the workers of one node, decided in one place, with the processes left out.
//
//           Begin              a worker fails, or Signalled          the last worker has ended
//    idle --------> running ----------------------------> stopping ---------------------> sweeping
//                    ^  |                                                                   |   |
//                    |  +--- all ended with 0 ---------------------------------> sweeping   |   |
//                    |                                                                      |   |
//                    +------------------- Alone, and a restart is due ----------------------+   |
//                    |                                  ended <---- Alone, and none is due -----+
//                    +--- start_pause is over --- pausing <---- Alone, where a worker could not
//                    start
//
// *sweeping* ends what the workers left behind (children of their own, in any session): no process
// of one attempt lives on into the next (R2). agent/agent.cpp performs the effects in order and
// keeps one timer, set to next_deadline().

#include "agent/core/process_end.hpp"
#include "agent/core/restart_budget.hpp"
#include "agent/core/worker.hpp"
#include "base/time.hpp"

#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace ddprun {

/// What the command line asks of a Supervisor. Every wait it knows is here.
struct SupervisorPolicy {
  int workers = 1;  // >= 1
  int max_restarts = 0;
  std::optional<Duration> restart_window;
  Duration grace = std::chrono::seconds(30);            // from the stop signal to SIGKILL
  Duration leftover_grace = std::chrono::seconds(1);    // the same, for what workers left behind
  Duration unkillable_after = std::chrono::seconds(5);  // from SIGKILL to giving up on a process
  Duration start_pause = std::chrono::seconds(1);       // after a worker could not be started
  // Terminals, Slurm and timeout(1) deliver one stop both to us and to our parent, which passes it
  // on: the same signal within this time is one signal.
  Duration same_signal_within = std::chrono::milliseconds(200);
};

/// One worker that ended badly, or was stopped by us because another one did.
struct WorkerFailure {
  int local_rank = 0;
  int pid = 0;  // 0: it could not be started
  ProcessEnd end;
  TimePoint at;
  bool stopped_by_us = false;  // it had been sent a signal by us before it ended
  std::string start_error;     // why it could not be started; empty if it was

  bool operator==(const WorkerFailure&) const = default;
};

/// What a person is told about an attempt that failed.
struct AttemptReport {
  int attempt = 0;
  std::vector<WorkerFailure> failures;  // in order of time; the first one is the culprit
  Duration ran_for{};                   // from the attempt's start to the culprit's end
  bool restarts = false;                // the next attempt is about to begin
  int restarts_used = 0;                // that one included
  int restarts_max = 0;
  bool can_be_retried = true;  // false: the program cannot be executed, so no restart would help
  int exit_status = 0;         // what ddprun ends with, unless it restarts
  int stopped_by = 0;          // the signal that ended the job meanwhile; 0: none

  bool operator==(const AttemptReport&) const = default;
};

class Supervisor {
 public:
  // What happened.
  struct Begin {};
  struct Spawned {
    int local_rank = 0;
    int pid = 0;
  };
  struct SpawnFailed {
    int local_rank = 0;
    int exit_status = 0;         // 126, 127, or 75 where trying again may help
    bool can_be_retried = true;  // false for 126 and 127
    std::string why;
  };
  struct Ended {
    int local_rank = 0;
    ProcessEnd end;
    bool leaves_group = false;  // others of its process group live on
  };
  struct Alone {};  // no process descends from us any more
  struct Signalled {
    int signal = 0;  // one of those to handle
  };
  struct Tick {};  // next_deadline() has passed; one that comes early does no harm
  using Event = std::variant<Begin, Spawned, SpawnFailed, Ended, Alone, Signalled, Tick>;

  // What to do about it.
  struct StartAttempt {  // a new round: an empty store, new logs
    int attempt = 0;
    std::string reason;  // why the attempt before it failed; empty for the first
  };
  struct Spawn {
    int local_rank = 0;
  };
  struct Send {  // to the worker and its process group
    int local_rank = 0;
    int signal = 0;
  };
  struct Sweep {  // to everything that descends from us; answered by Alone when nothing is left
    int signal = 0;
    std::vector<int> told_groups;  // process groups that have had it, and are not told again
  };
  struct Report {
    AttemptReport report;
  };
  struct GiveUp {  // SIGKILL did not end these in time: uninterruptible sleep, or not ours to kill
    std::vector<int> local_ranks;
  };
  struct Finish {
    int exit_status = 0;
  };
  using Effect = std::variant<StartAttempt, Spawn, Send, Sweep, Report, GiveUp, Finish>;
  using Effects = std::vector<Effect>;

  /// REQUIRES: policy.workers >= 1.
  explicit Supervisor(SupervisorPolicy policy);

  /// Advances by one event and appends what follows. REQUIRES: `now` never goes back; Spawned or
  /// SpawnFailed is the very next event after a Spawn was performed.
  void apply(const Event& event, TimePoint now, Effects& out);

  /// When the next Tick is due, if nothing else happens before.
  std::optional<TimePoint> next_deadline() const { return deadline_; }

  /// Restarts so far: TORCHELASTIC_RESTART_COUNT.
  int attempt() const { return attempt_; }

 private:
  enum class Phase : std::uint8_t { kIdle, kRunning, kStopping, kSweeping, kPausing, kEnded };

  struct Worker {
    WorkerState state = WorkerState::kIdle;
    int pid = 0;
    bool stopped_by_us = false;
    bool leaves_group = false;
  };

  void on(const Begin& event, TimePoint now, Effects& out);
  void on(const Spawned& event, TimePoint now, Effects& out);
  void on(const SpawnFailed& event, TimePoint now, Effects& out);
  void on(const Ended& event, TimePoint now, Effects& out);
  void on(const Alone& event, TimePoint now, Effects& out);
  void on(const Signalled& event, TimePoint now, Effects& out);
  void on(const Tick& event, TimePoint now, Effects& out);

  void start_attempt(std::string reason, TimePoint now, Effects& out);
  void advance(int local_rank, WorkerInput input, Effects& out);
  void worker_ended(WorkerFailure failure, TimePoint now, Effects& out);
  void fail(TimePoint now, Effects& out);
  void stop_all(int signal, TimePoint now, Effects& out);
  void kill_all(TimePoint now, Effects& out);
  void sweep(TimePoint now, Effects& out);
  void restart(TimePoint now, Effects& out);
  void finish(Effects& out);
  void give_up(Effects& out);
  void report(Effects& out) const;
  bool none_running() const;
  bool is_again(int signal, TimePoint now) const;

  SupervisorPolicy policy_;
  RestartBudget budget_;
  std::vector<Worker> workers_;  // by local rank
  Phase phase_ = Phase::kIdle;
  int attempt_ = 0;
  TimePoint attempt_began_;
  std::vector<WorkerFailure> failures_;  // of this attempt, in order of time
  bool restart_due_ = false;             // decided by fail(), undone by a signal
  bool can_be_retried_ = true;
  int exit_status_ = 0;  // what Finish will say unless a restart is due
  int stop_signal_ = 0;  // what workers are stopped with, in this phase
  int told_to_stop_by_ = 0;
  TimePoint told_to_stop_at_;
  bool killing_ = false;  // SIGKILL was sent to all; the deadline is the last one
  std::optional<TimePoint> deadline_;
};

}  // namespace ddprun
