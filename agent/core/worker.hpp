#pragma once

// One worker as a table of states × inputs. Supervisor steps it; nothing else decides when a worker
// is started, stopped or killed.

#include <cstddef>
#include <cstdint>

namespace ddprun {

enum class WorkerState : std::uint8_t {
  kIdle,      // not started in this round
  kRunning,   // started; may have ended unnoticed
  kStopping,  // was sent the stop signal, has its grace
  kKilling,   // was sent SIGKILL
  kExited,    // ended, and its status is known
};

enum class WorkerInput : std::uint8_t {
  kStart,   // begin a round
  kStop,    // the round is over
  kKill,    // the grace is over, or there is none
  kReaped,  // the kernel reported how it ended, or it could not be started
};

enum class WorkerAction : std::uint8_t { kNothing, kSpawn, kSendStop, kSendKill, kReport, kBug };

struct WorkerStep {
  // No default constructor: a missing cell or row of the table does not compile.
  constexpr WorkerStep(WorkerState state, WorkerAction what) : next(state), action(what) {}
  WorkerState next;
  WorkerAction action;
};

inline constexpr std::size_t kWorkerStates = 5;
inline constexpr std::size_t kWorkerInputs = 4;

/// What follows from an input. Total: every state answers every input.
constexpr WorkerStep step(WorkerState state, WorkerInput input) {
  using enum WorkerState;
  using enum WorkerAction;
  // clang-format off
  constexpr WorkerStep kTable[kWorkerStates][kWorkerInputs] = {
      // kStart            kStop                   kKill                   kReaped
      {{kRunning, kSpawn}, {kIdle, kNothing},      {kIdle, kNothing},      {kIdle, kBug}},       // kIdle
      {{kRunning, kBug},   {kStopping, kSendStop}, {kKilling, kSendKill},  {kExited, kReport}},  // kRunning
      {{kStopping, kBug},  {kStopping, kNothing},  {kKilling, kSendKill},  {kExited, kReport}},  // kStopping
      {{kKilling, kBug},   {kKilling, kNothing},   {kKilling, kNothing},   {kExited, kReport}},  // kKilling
      {{kRunning, kSpawn}, {kExited, kNothing},    {kExited, kNothing},    {kExited, kBug}},     // kExited
  };
  // clang-format on
  return kTable[static_cast<std::size_t>(state)][static_cast<std::size_t>(input)];
}

}  // namespace ddprun
