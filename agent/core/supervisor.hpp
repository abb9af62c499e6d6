#pragma once

// Supervisor decides everything about the workers of one node, and performs nothing. Its phases
// are the tables in supervisor_table.hpp. Rounds come from outside, one after the other; whether
// there is another one is decided elsewhere. agent/local_workers.cpp performs the effects in order
// and keeps one timer, set to next_deadline().

#include "agent/core/launch_plan.hpp"
#include "agent/core/process_end.hpp"
#include "agent/core/supervisor_table.hpp"
#include "agent/core/worker_failure.hpp"
#include "base/time.hpp"
#include "rendezvous/core/messages.hpp"

#include <csignal>
#include <initializer_list>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace ddprun {

/// What the command line asks of a Supervisor, and how long it waits for what.
struct SupervisorPolicy {
  int workers = 1;                                    // >= 1
  Duration grace = std::chrono::seconds(30);          // from the stop signal to SIGKILL
  std::optional<Duration> notice_grace = grace;       // from a notice; none: what Slurm leaves
  Duration quiet_grace = std::chrono::seconds(1);     // until a person is told of the wait
  Duration quiet_start = std::chrono::seconds(5);     // the same for a worker that is being started
  Duration leftover_grace = std::chrono::seconds(1);  // from SIGTERM to SIGKILL
  // After a success, until leftovers are named: helpers of Python end a moment after their parent.
  Duration leftover_settle = std::chrono::milliseconds(300);
  LeftoverPlan leftovers;
  Duration unkillable_after = std::chrono::seconds(5);  // from SIGKILL to giving up
  Duration dying_wait = std::chrono::seconds(1);  // for one that is ending and may be the cause
  // Terminals, Slurm and timeout(1) deliver one stop both to us and to our parent, which passes it
  // on: the same signal within this time is one signal.
  Duration same_signal_within = std::chrono::milliseconds(200);
  // Slurm signals workers as it does us. If a notice may have ended a worker, the others are left
  // alone until a StopRound says whether there was one.
  bool workers_get_notices = false;
};

class Supervisor {
 public:
  // What happened.
  struct StartRound {};
  struct StopRound {
    int signal = SIGTERM;    // that workers are stopped with
    bool is_notice = false;  // they are to save first; a later StopRound without it shortens that
    // After a notice: Slurm kills no sooner than this; none: not known.
    std::optional<Duration> killed_in = std::nullopt;
  };
  struct Kill {};  // nothing may run here any more
  struct Spawned {
    int local_rank = 0;
    int pid = 0;
  };
  struct SpawnFailed {
    int local_rank = 0;
    int exit_status = 0;         // 126, 127, or 75 if trying again may help
    bool can_be_retried = true;  // false for 126 and 127
    std::string why;
  };
  struct SpawnCancelled {  // as CancelSpawn asked; no process was made
    int local_rank = 0;
  };
  struct Ended {
    int local_rank = 0;
    ProcessEnd end;
    bool leaves_group = false;  // others of its process group live on
    bool others_end = false;    // another worker has ended, or is ending; its Ended follows
  };
  struct Alone {};    // no process descends from us any more
  struct Signalled {  // a person, or Slurm, wants the job to end; a person's second one: at once
    int signal = 0;
    bool is_repeated = false;  // Slurm repeats its signals, and means no more by it
  };
  struct Tick {};  // next_deadline() has passed; an early one is ignored
  using Event = std::variant<
      StartRound,
      StopRound,
      Kill,
      Spawned,
      SpawnFailed,
      SpawnCancelled,
      Ended,
      Alone,
      Signalled,
      Tick>;

  // What to do about it.
  // After those ordered before; not at all after one of this round that fails. Answered by Spawned
  // or SpawnFailed, in this order, however long it takes.
  struct Spawn {
    int local_rank = 0;
  };
  struct CancelSpawn {  // answered by SpawnCancelled, or as the spawn if there is a process already
    int local_rank = 0;
  };
  struct SlowSpawn {  // a person is to know that a spawn waits for something
    int local_rank = 0;
  };
  struct Send {  // to the worker and its process group
    int local_rank = 0;
    int signal = 0;
  };
  struct Sweep {     // to everything that descends from us; answered by Alone when nothing is left
    int signal = 0;  // 0: none is sent yet
    std::vector<int> signalled_groups;  // process groups that have had it, and do not get it again
  };
  struct News {  // of the workers as a whole; in a round kStopped or kSucceeded is the last
    WorkersState state = WorkersState::kStopped;
    // The culprit, then the others in order of time; with kStopped all. kFailed comes again if a
    // later death is a more likely cause.
    std::vector<WorkerFailure> failures;
    Duration ran_for{};  // from the round's start to the culprit's end
    // With kStopped, after a notice: each worker ran, and exited by itself, with 0 or 75.
    bool has_saved = false;
  };
  struct GiveUp {  // SIGKILL did not end these in time: uninterruptible sleep, or not ours to kill
    std::vector<int> local_ranks;  // empty: a leftover
    News news;                     // kStopped, as if it were
  };
  struct Waits {                      // for those that got a stop signal a moment ago
    std::vector<int> local_ranks;     // empty: children of workers that have ended
    std::optional<Duration> kill_in;  // none: nothing here ends them
  };
  struct Leftovers {                          // of workers that exited with 0, for a person
    LeftoverMode mode = LeftoverMode::kKill;  // what happens to them from now on
  };
  using Effect =
      std::variant<Spawn, CancelSpawn, SlowSpawn, Send, Sweep, News, GiveUp, Waits, Leftovers>;
  using Effects = std::vector<Effect>;

  /// REQUIRES: policy.workers >= 1.
  explicit Supervisor(SupervisorPolicy policy);

  /// Advances by one event and appends what follows. REQUIRES: `now` never goes back; a Spawn has
  /// one answer at most, and a CancelSpawn of one without an answer is answered next, before any
  /// other event, unless its process is being made; StartRound comes only in kIdle or kKeeping.
  void apply(const Event& event, TimePoint now, Effects& out);

  /// When the next Tick is due, if nothing else happens before.
  std::optional<TimePoint> next_deadline() const {
    return !deadline_ || (report_at_ && *report_at_ < *deadline_) ? report_at_ : deadline_;
  }

  SupervisorPhase phase() const { return phase_; }

  /// A person has sent a second signal, so no worker gets a grace.
  bool is_signalled_twice() const { return is_signalled_twice_; }

  /// All workers have exited with 0 in this round; leftovers are still to be ended.
  bool has_succeeded() const {
    return round_.has_succeeded && phase_ >= SupervisorPhase::kSettling &&
           phase_ <= SupervisorPhase::kSweepKilling;
  }

  /// Leftovers of the round that succeeded live on, for good.
  bool keeps_leftovers() const { return phase_ == SupervisorPhase::kKeeping; }

 private:
  struct Worker {
    WorkerState state = WorkerState::kIdle;
    int pid = 0;
    bool stopped_by_us = false;
    bool leaves_group = false;
  };

  struct Round {
    TimePoint began;
    std::vector<WorkerFailure> failures;   // the culprit, then in order of time
    std::optional<int> reported_culprit;   // its local rank
    bool has_succeeded = false;            // every worker exited with 0, unasked (R6)
    bool has_saved = false;                // after a notice: every worker that has ended since
    int stop_signal = 0;                   // 0: none was sent
    std::optional<TimePoint> killed_soon;  // after a notice: a little before Slurm kills us
  };

  struct LastSignal {
    int number = 0;  // 0: none came
    TimePoint at;
  };

  void on(const StartRound& event, TimePoint now, Effects& out);
  void on(const StopRound& event, TimePoint now, Effects& out);
  void on(const Kill& event, TimePoint now, Effects& out);
  void on(const Spawned& event, TimePoint now, Effects& out);
  void on(const SpawnFailed& event, TimePoint now, Effects& out);
  void on(const SpawnCancelled& event, TimePoint now, Effects& out);
  void on(const Ended& event, TimePoint now, Effects& out);
  void on(const Alone& event, TimePoint now, Effects& out);
  void on(const Signalled& event, TimePoint now, Effects& out);
  void on(const Tick& event, TimePoint now, Effects& out);

  void step(SupervisorInput input, const Event& event, TimePoint now, Effects& out);
  void enter(SupervisorPhase next, const Event& event, TimePoint now, Effects& out);
  void stop_workers(const StopRound& order, TimePoint now, Effects& out);
  void sweep(std::optional<TimePoint> grace_ends, TimePoint now, Effects& out);
  void count_spawned(TimePoint now, Effects& out);
  void record_end(WorkerFailure end, Effects& out);
  void judge(const Event& event, TimePoint now, Effects& out);
  void check_saved(TimePoint now, Effects& out);
  void shorten_grace(TimePoint now);
  void report_wait(TimePoint now, Effects& out);

  Worker& worker(int local_rank) { return workers_[static_cast<std::size_t>(local_rank)]; }
  void advance(int local_rank, WorkerInput input, Effects& out);
  void advance_all(WorkerInput input, Effects& out);
  bool none_runs() const;
  std::vector<int> ranks_in(std::initializer_list<WorkerState> states) const;
  News news(WorkersState state) const;

  SupervisorPolicy policy_;
  std::vector<Worker> workers_;  // by local rank
  SupervisorPhase phase_ = SupervisorPhase::kIdle;
  Round round_;
  std::optional<TimePoint> deadline_;   // of the phase, or, while running, for judging a failure
  std::optional<TimePoint> report_at_;  // when a person is told that the phase takes long
  LastSignal last_signal_;
  bool is_signalled_twice_ = false;
};

}  // namespace ddprun
