#pragma once

// Supervisor: the workers of one node, decided in one place, with the processes left out. Rounds
// come from outside, one after the other; whether there is another one is not decided here.
//
//          StartRound           one fails, or StopRound, Kill         the last one has ended
//    idle -----------> running ------------------------------> stopping ----------------> sweeping
//     ^                   |                                                                |   |
//     |                   +--- all ended with 0 ------------------------------> sweeping   |   |
//     |                                                                                    |   |
//     +---- Alone -------------------------------------------------------------------------+   |
//                                     given up <---- not even SIGKILL helps -------------------+
//
// *sweeping* ends what the workers left behind (children of their own, in any session): no process
// of one round lives on into the next (R2). After a success they have a moment to end by
// themselves; then --leftover decides. Those that are kept are killed before the next round starts.
// agent/local_workers.cpp performs the effects in order and keeps one timer, set to
// next_deadline().

#include "agent/core/leftovers.hpp"
#include "agent/core/process_end.hpp"
#include "agent/core/worker.hpp"
#include "base/suspicion.hpp"
#include "base/time.hpp"
#include "base/worker_contract.hpp"
#include "rendezvous/core/messages.hpp"

#include <csignal>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace ddprun {

/// What the command line asks of a Supervisor. Every wait it knows is here.
struct SupervisorPolicy {
  int workers = 1;                                    // >= 1
  Duration grace = std::chrono::seconds(30);          // from the stop signal to SIGKILL
  std::optional<Duration> notice_grace = grace;       // from a notice; none: what Slurm leaves
  Duration quiet_grace = std::chrono::seconds(1);     // before a person is told of the wait
  Duration leftover_grace = std::chrono::seconds(1);  // for what workers left behind
  // After a success, until it is named: helpers of Python end a moment after their parent.
  Duration leftover_settle = std::chrono::milliseconds(300);
  LeftoverPlan leftovers;
  Duration unkillable_after = std::chrono::seconds(5);  // from SIGKILL to giving up on a process
  Duration dying_wait = std::chrono::seconds(1);  // for one that is ending and may be the cause
  // Terminals, Slurm and timeout(1) deliver one stop both to us and to our parent, which passes it
  // on: the same signal within this time is one signal.
  Duration same_signal_within = std::chrono::milliseconds(200);
  // Slurm signals workers as it does us. After one that a notice may have ended the others are left
  // alone until a StopRound says whether it was one.
  bool workers_get_notices = false;
};

/// One worker that ended badly, or was stopped by us because another one did.
struct WorkerFailure {
  int local_rank = 0;
  int pid = 0;  // 0: it could not be started
  ProcessEnd end;
  TimePoint at;
  // We had sent it a signal before it ended, and no other signal ended it.
  bool stopped_by_us = false;
  std::string start_error;     // why it could not be started; empty if it was
  bool can_be_retried = true;  // false: the program cannot be executed, so no restart would help

  /// As people are told: "exited with status 1", or why it could not be started.
  std::string how() const;

  /// If it was told to.
  bool has_saved() const { return contract::has_saved(worker_end()); }
  bool may_come_of_notice() const { return contract::may_come_of_notice(worker_end()); }
  Suspicion suspicion() const { return ddprun::suspicion(worker_end()); }

  bool operator==(const WorkerFailure&) const = default;

 private:
  contract::WorkerEnd worker_end() const {
    return {.pid = pid, .exit_status = end.code, .signal = end.signal};
  }
};

class Supervisor {
 public:
  // What happened.
  struct StartRound {};
  struct StopRound {
    int signal = SIGTERM;    // that workers are stopped with
    bool is_notice = false;  // they are to save first; one that is not, later, says to hurry
    // After a notice, and no sooner, by Slurm; none: not known.
    std::optional<Duration> killed_in = std::nullopt;
  };
  struct Kill {};  // nothing may run here any more
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
    bool others_end = false;    // so has another worker, or is about to, and will be told of
  };
  struct Alone {};    // no process descends from us any more
  struct Signalled {  // a person, or Slurm, wants an end; a person who says it twice, at once
    int signal = 0;
    bool is_repeated = false;  // others than persons say it again, and mean no more by it
  };
  struct Tick {};  // next_deadline() has passed; one that comes early does no harm
  using Event = std::
      variant<StartRound, StopRound, Kill, Spawned, SpawnFailed, Ended, Alone, Signalled, Tick>;

  // What to do about it.
  struct Spawn {
    int local_rank = 0;
  };
  struct Send {  // to the worker and its process group
    int local_rank = 0;
    int signal = 0;
  };
  struct Sweep {     // to everything that descends from us; answered by Alone when nothing is left
    int signal = 0;  // 0: none is sent yet
    std::vector<int> told_groups;  // process groups that have had it, and are not told again
  };
  struct News {  // of the workers as a whole; in a round kStopped or kSucceeded is the last
    WorkersState state = WorkersState::kStopped;
    // The culprit, then the others in order of time; with kStopped all. kFailed comes again if a
    // death explains that of a culprit which had lost a peer.
    std::vector<WorkerFailure> failures;
    Duration ran_for{};      // from the round's start to the culprit's end
    bool has_saved = false;  // with kStopped, by a notice: each exited by itself, with 0 or 75
  };
  struct GiveUp {  // SIGKILL did not end these in time: uninterruptible sleep, or not ours to kill
    std::vector<int> local_ranks;
    News news;  // kStopped, if it were
  };
  struct WaitsForWorkers {  // which were told to end a moment ago
    std::vector<int> local_ranks;
    std::optional<Duration> kill_in;  // none: nothing here ends them
  };
  struct WaitsForChildren {           // of workers that have ended, and were told with them
    std::optional<Duration> kill_in;  // none: nothing here ends them
  };
  struct Leftovers {  // of workers that exited with 0; a person is told of them
    LeftoverMode mode = LeftoverMode::kKill;  // what becomes of them from now on
  };
  using Effect =
      std::variant<Spawn, Send, Sweep, News, GiveUp, WaitsForWorkers, WaitsForChildren, Leftovers>;
  using Effects = std::vector<Effect>;

  /// REQUIRES: policy.workers >= 1.
  explicit Supervisor(SupervisorPolicy policy);

  /// Advances by one event and appends what follows. REQUIRES: `now` never goes back; Spawned or
  /// SpawnFailed is the very next event after a Spawn was performed; StartRound comes only while
  /// nothing runs, and never after GiveUp.
  void apply(const Event& event, TimePoint now, Effects& out);

  /// When the next Tick is due, if nothing else happens before.
  std::optional<TimePoint> next_deadline() const {
    return !deadline_ || (report_at_ && *report_at_ < *deadline_) ? report_at_ : deadline_;
  }

  /// A person has said it twice, so nothing is waited for.
  bool is_told_twice() const { return is_told_twice_; }

  /// Nothing runs: a round may be started.
  bool is_idle() const { return phase_ == Phase::kIdle; }

  /// All have exited with 0 in this round; what they left behind may still be there.
  bool has_succeeded() const {
    return phase_ == Phase::kSweeping && !was_stopped_ && !starts_when_alone_;
  }

  /// Of the round that succeeded something lives on, for good.
  bool keeps_leftovers() const { return keeps_leftovers_; }

 private:
  enum class Phase : std::uint8_t { kIdle, kRunning, kStopping, kSweeping, kGivenUp };

  /// What the present deadline of a sweep is.
  enum class LeftoverStage : std::uint8_t { kSettling, kWaitedFor, kTold };

  struct Worker {
    WorkerState state = WorkerState::kIdle;
    int pid = 0;
    bool stopped_by_us = false;
    bool leaves_group = false;
  };

  void on(const StartRound& event, TimePoint now, Effects& out);
  void on(const StopRound& event, TimePoint now, Effects& out);
  void on(const Kill& event, TimePoint now, Effects& out);
  void on(const Spawned& event, TimePoint now, Effects& out);
  void on(const SpawnFailed& event, TimePoint now, Effects& out);
  void on(const Ended& event, TimePoint now, Effects& out);
  void on(const Alone& event, TimePoint now, Effects& out);
  void on(const Signalled& event, TimePoint now, Effects& out);
  void on(const Tick& event, TimePoint now, Effects& out);

  void advance(int local_rank, WorkerInput input, Effects& out);
  void worker_ended(WorkerFailure failure, bool others_end, TimePoint now, Effects& out);
  void consider_failures(bool others_end, TimePoint now, Effects& out);
  void stop_all(const StopRound& stop, TimePoint now, Effects& out);
  void shorten_grace(TimePoint now);
  void kill_all(TimePoint now, Effects& out);
  void begin_round(TimePoint now, Effects& out);
  void sweep(TimePoint now, Effects& out);
  void quiet_period_is_over(TimePoint now, Effects& out);
  void end_leftovers(TimePoint now, Effects& out);
  void give_up(Effects& out);
  void report_wait(TimePoint now, Effects& out);
  News news(WorkersState state) const;
  bool none_running() const;

  SupervisorPolicy policy_;
  std::vector<Worker> workers_;  // by local rank
  Phase phase_ = Phase::kIdle;
  TimePoint began_;                      // the round
  std::vector<WorkerFailure> failures_;  // of this round: the culprit, then in order of time
  std::optional<int> told_culprit_;      // of this round, its local rank
  bool was_stopped_ = false;             // this round, by a failure or from outside
  bool has_saved_ = false;               // so that workers could save, and all ended ones have
  LeftoverStage leftover_stage_ = LeftoverStage::kTold;  // while sweeping
  bool keeps_leftovers_ = false;                         // of an earlier round
  bool starts_when_alone_ = false;                       // this round, once they are gone
  bool killing_ = false;  // SIGKILL was sent to all; the deadline is the last one
  int stop_signal_ = 0;   // what workers are stopped with, in this round
  int told_to_stop_by_ = 0;
  bool is_told_twice_ = false;
  TimePoint told_to_stop_at_;
  std::optional<TimePoint> deadline_;
  std::optional<TimePoint> report_at_;  // for whom it waits
  // After a notice, where Slurm kills this process soon behind it.
  std::optional<TimePoint> grace_ends_;
};

}  // namespace ddprun
