#pragma once

// Which of the workers of a node keeps the others waiting, and how a person is told.

#include "agent/core/python_stack.hpp"
#include "base/time.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace ddprun {

/// A worker while training hangs.
struct HungWorker {
  int rank = 0;
  int local_rank = 0;
  int pid = 0;               // 0: it has exited with 0
  std::int64_t step = 0;     // as StepReport has it
  char state = 'S';          // as in /proc/<pid>/stat
  std::string wait_channel;  // the kernel's function that it waits in; empty: not known
  std::vector<PythonFrame>
      frames;             // of its main thread, the innermost call first; empty: not known
  bool moves = false;     // its stack changed while it was looked at
  bool computes = false;  // the same, or it used the CPU
  bool wakes = false;     // it woke up several times

  /// What it does, for people: "waits in all_reduce (train.py:31)".
  std::string activity() const;
  /// For other ranks, as far as can be seen.
  bool waits() const;
};

struct HangReport {
  std::string title;  // of the command
  std::string host;
  int attempt = 0;
  Duration silent_for{};
  Duration slowest{};               // of the last steps; 0: not known
  std::vector<HungWorker> workers;  // by local rank
  std::string stacks;               // the file with all stacks; empty: there is none
  bool restarts = false;            // --on-hang restart
  bool has_restarts = true;         // --max-restarts is not 0
  bool has_others = false;          // the job has other nodes

  /// All workers of this node wait for other ranks, or do the same, so the one that hangs is on
  /// another node.
  bool is_elsewhere() const;

  /// Somebody looks at a worker with Python's debugger, or with one of the system.
  bool is_debugged() const;

  /// A worker that does not wait computes or wakes up often, so that it may be evaluating.
  /// `waits_may_spin`: so may one that waits for a GPU, and only one that moves counts if none is
  /// seen to wait.
  bool computes(bool waits_may_spin) const;
};

/// Indices of the workers that do not do what the others do. Those that wait for other ranks are
/// not among them if any does not wait; if all wait, those that do so elsewhere than most. Empty:
/// none differs.
std::vector<std::size_t> culprits_of(const std::vector<HungWorker>& workers);

/// The workers that are ended so that the job restarts: the culprits, or all if none of those runs.
/// None if the one that hangs is on another node.
std::vector<const HungWorker*> to_be_ended(const HangReport& report);

/// The paragraph.
std::string hang_paragraph(const HangReport& report);

}  // namespace ddprun
