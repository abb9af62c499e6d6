#pragma once

// The workers of one node as a table of phases × inputs, so that a reader can enumerate what will
// happen, and below it the table of one worker. Supervisor steps them and does what a step asks
// for; nothing else decides when a worker is started, stopped or killed.
//
//   kIdle ──▶ kRunning ──▶ kStopping ──▶ kSweeping ──▶ kIdle     (a failure, or an order to stop)
//                 │            └──▶ kKilling ──▶ kSweepKilling ──▶ kIdle or kGivenUp
//                 └──▶ kSettling ──▶ kIdle                       (all workers exited with 0)
//                          └──▶ kWaiting, kSweeping or kKeeping  (--leftover)
//
// Leftovers are the processes that workers left behind, in any session. None of them lives on into
// the next round (R2).

#include "agent/core/launch_plan.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>

namespace ddprun {

/// What runs, and in brackets what is ordered on entry and how long the phase lasts at most.
enum class SupervisorPhase : std::uint8_t {
  kIdle,          // nothing runs                      [report how the round ended]
  kKeeping,       // kept leftovers of the last round  [report success]
  kRunning,       // the workers                       [spawn each of them]
  kStopping,      // workers that are to end           [stop signal to each; the grace]
  kKilling,       // workers that are to end at once   [SIGKILL to each; unkillable_after]
  kSettling,      // leftovers of a success            [watch for their end; leftover_settle]
  kWaiting,       // the same, --leftover wait         [name them; its limit]
  kSweeping,      // leftovers that are to end         [SIGTERM to all; leftover_grace or the grace]
  kSweepKilling,  // leftovers that are to end at once [SIGKILL to all; unkillable_after]
  kClearing,      // kept leftovers; then a round      [name them, SIGKILL to all; unkillable_after]
  kGivenUp,       // a process that SIGKILL did not end: this node starts no worker again (R2)
};

enum class SupervisorInput : std::uint8_t {
  kStartRound,
  kStopRound,  // from outside, or because a worker's failure ends the round
  kKill,       // from outside, or by a person's second signal
  kSpawned,    // a worker runs
  kEnded,      // a worker ended, could not be started, or its start was cancelled
  kLastEnded,  // that was the last one; the supervisor adds it to the input that it follows from
  kAlone,      // no leftover is left
  kSignalled,  // a person, or Slurm, wants the job to end
  kTimeout,    // the phase has lasted as long as it may
};

enum class SupervisorAction : std::uint8_t {
  kEnter,          // enter the next phase
  kNothing,        // ignore it, on purpose
  kBug,            // cannot happen
  kCountSpawned,   // unless one has failed: report it if that was the last to be started
  kJudge,          // pick the culprit; it may end the round, as kStopRound or kLastEnded do
  kCheckSaved,     // after a notice: if this worker has not saved, shorten the grace of the others
  kShortenGrace,   // after a notice: the workers get the grace of a stop
  kForget,         // enter the next phase without a report: success was reported before
  kApplyLeftover,  // enter after_settling(--leftover)
};

struct SupervisorStep {
  // No default constructor: a missing cell or row of the table does not compile.
  constexpr SupervisorStep(SupervisorPhase phase, SupervisorAction what = SupervisorAction::kEnter)
      : next(phase), action(what) {}
  constexpr SupervisorStep(SupervisorAction what) : action(what) {}
  std::optional<SupervisorPhase> next;  // none: the phase stays, or the action chooses
  SupervisorAction action;
};

inline constexpr std::size_t kSupervisorPhases = 11;
inline constexpr std::size_t kSupervisorInputs = 9;

/// The phase in which leftovers of a success are that have not ended by themselves.
constexpr SupervisorPhase after_settling(LeftoverMode mode) {
  if (mode == LeftoverMode::kKeep) return SupervisorPhase::kKeeping;
  return mode == LeftoverMode::kWait ? SupervisorPhase::kWaiting : SupervisorPhase::kSweeping;
}

/// What follows from an input. Total: every phase answers every input. Ignored on purpose are: what
/// would end workers while none runs or after it has been ordered; kAlone outside a sweep, as the
/// second answer to a sweep that was repeated; the first kSignalled while workers run, since an
/// order to stop follows from outside; kSpawned once workers are being ended, which the worker's
/// own table answers; kEnded after kGivenUp, which is too late.
constexpr SupervisorStep step(SupervisorPhase phase, SupervisorInput input) {
  using enum SupervisorPhase;
  using enum SupervisorAction;
  // clang-format off
  constexpr SupervisorStep kTable[kSupervisorPhases][kSupervisorInputs] = {
      // kStartRound  kStopRound     kKill          kSpawned       kEnded       kLastEnded     kAlone            kSignalled  kTimeout
      {  kRunning,    kNothing,      kNothing,      kBug,          kBug,        kBug,          kNothing,         kNothing,   kBug          },  // kIdle
      {  kClearing,   kNothing,      kNothing,      kBug,          kBug,        kBug,          {kIdle, kForget}, kNothing,   kBug          },  // kKeeping
      {  kBug,        kStopping,     kKilling,      kCountSpawned, kJudge,      kSettling,     kNothing,         kNothing,   kJudge        },  // kRunning
      {  kBug,        kShortenGrace, kKilling,      kNothing,      kCheckSaved, kSweeping,     kNothing,         kNothing,   kKilling      },  // kStopping
      {  kBug,        kNothing,      kNothing,      kNothing,      kCheckSaved, kSweepKilling, kNothing,         kNothing,   kGivenUp      },  // kKilling
      {  kBug,        kSweeping,     kSweepKilling, kBug,          kBug,        kBug,          kIdle,            kSweeping,  kApplyLeftover},  // kSettling
      {  kBug,        kSweeping,     kSweepKilling, kBug,          kBug,        kBug,          kIdle,            kSweeping,  kSweeping     },  // kWaiting
      {  kBug,        kNothing,      kSweepKilling, kBug,          kBug,        kBug,          kIdle,            kNothing,   kSweepKilling },  // kSweeping
      {  kBug,        kNothing,      kNothing,      kBug,          kBug,        kBug,          kIdle,            kNothing,   kGivenUp      },  // kSweepKilling
      {  kBug,        kSweepKilling, kSweepKilling, kBug,          kBug,        kBug,          kRunning,         kNothing,   kGivenUp      },  // kClearing
      {  kBug,        kNothing,      kNothing,      kNothing,      kNothing,    kBug,          kNothing,         kNothing,   kBug          },  // kGivenUp
  };
  // clang-format on
  return kTable[static_cast<std::size_t>(phase)][static_cast<std::size_t>(input)];
}

enum class WorkerState : std::uint8_t {
  kIdle,         // not started in this round
  kStarting,     // its files are being opened, or its program: either may wait for a disk
  kStopOnStart,  // the same, and once it runs, it gets the stop signal
  kKillOnStart,  // the same, and once it runs, it gets SIGKILL
  kRunning,      // started; may have ended unnoticed
  kStopping,     // was sent the stop signal, has its grace
  kKilling,      // was sent SIGKILL
  kExited,       // ended, and its status is known
};

enum class WorkerInput : std::uint8_t {
  kStart,    // begin a round
  kStarted,  // its program runs
  kStop,     // the round is over
  kKill,     // the grace is over, or there is none
  kReaped,   // the kernel reported how it ended, or it was never started
};

enum class WorkerAction : std::uint8_t {
  kNothing,
  kSpawn,
  kCancelSpawn,  // answered like a spawn, at once if no process has been made yet
  kSendStop,
  kSendKill,
  kBug
};

struct WorkerStep {
  // No default constructor: a missing cell or row of the table does not compile.
  constexpr WorkerStep(WorkerState state, WorkerAction what) : next(state), action(what) {}
  WorkerState next;
  WorkerAction action;
};

inline constexpr std::size_t kWorkerStates = 8;
inline constexpr std::size_t kWorkerInputs = 5;

/// What follows from an input. Total: every state answers every input.
constexpr WorkerStep step(WorkerState state, WorkerInput input) {
  using enum WorkerState;
  using enum WorkerAction;
  // clang-format off
  constexpr WorkerStep kTable[kWorkerStates][kWorkerInputs] = {
      // kStart              kStarted                kStop                         kKill                         kReaped
      {{kStarting, kSpawn},  {kIdle, kBug},          {kIdle, kNothing},            {kIdle, kNothing},            {kIdle, kBug}},        // kIdle
      {{kStarting, kBug},    {kRunning, kNothing},   {kStopOnStart, kCancelSpawn}, {kKillOnStart, kCancelSpawn}, {kExited, kNothing}},  // kStarting
      {{kStopOnStart, kBug}, {kStopping, kSendStop}, {kStopOnStart, kNothing},     {kKillOnStart, kNothing},     {kExited, kNothing}},  // kStopOnStart
      {{kKillOnStart, kBug}, {kKilling, kSendKill},  {kKillOnStart, kNothing},     {kKillOnStart, kNothing},     {kExited, kNothing}},  // kKillOnStart
      {{kRunning, kBug},     {kRunning, kBug},       {kStopping, kSendStop},       {kKilling, kSendKill},        {kExited, kNothing}},  // kRunning
      {{kStopping, kBug},    {kStopping, kBug},      {kStopping, kNothing},        {kKilling, kSendKill},        {kExited, kNothing}},  // kStopping
      {{kKilling, kBug},     {kKilling, kBug},       {kKilling, kNothing},         {kKilling, kNothing},         {kExited, kNothing}},  // kKilling
      {{kStarting, kSpawn},  {kExited, kBug},        {kExited, kNothing},          {kExited, kNothing},          {kExited, kBug}},      // kExited
  };
  // clang-format on
  return kTable[static_cast<std::size_t>(state)][static_cast<std::size_t>(input)];
}

}  // namespace ddprun
