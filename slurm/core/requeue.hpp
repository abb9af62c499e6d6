#pragma once

// Whether to start an ended job again, and whether Slurm would do so.
//
// Slurm itself starts a job again after a node failure, or a preemption that it had to end by
// force. A job that exits within the grace period is over, so a job that saved and left must ask.
// All notices look alike to a process; scontrol knows why one came.

#include "base/error.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace ddprun {

/// --requeue
enum class Requeue : std::uint8_t {
  kNo,
  kOnPreempt,  // if it may help: Slurm told the job to end, or nodes were lost
  kAlways,     // after any failure
};

/// None if the word is unknown.
std::optional<Requeue> parse_requeue(std::string_view word);

/// Which Slurm job is to be started again, and when.
struct RequeuePlan {
  Requeue mode = Requeue::kNo;
  std::string job;   // Allocation::scontrol_id(); empty: not in a step
  int restarts = 0;  // SLURM_RESTART_COUNT
};

/// A limit, so that a job that fails in every run ends eventually.
inline constexpr int kRequeuesMax = 100;

/// How a job ended, as known by the node that asks Slurm.
struct JobOutcome {
  int exit_status = 0;
  int notice_status = 75;  // exit_status if all workers have saved after a notice
  int stopped_by = 0;      // the first signal that asked it to end; 0: none
};

/// Whether the user wants the job to start again. Not after a signal that is not a notice (Ctrl-C),
/// and not after bad usage.
bool wants_requeue(Requeue mode, const JobOutcome& end);

/// The required fields of `scontrol show job --oneliner`.
struct JobRecord {
  std::string state;   // "RUNNING", "COMPLETING"
  std::string reason;  // "None", "TimeLimit"
  int restarts = 0;
  bool is_batch = true;
  bool may_be_requeued = true;
};

/// Fails with kProtocol if a field is missing or invalid.
Result<JobRecord> parse_job_record(std::string_view text);

/// Fails, with the reason in a clause, if a requeue is too many or not allowed: the job was
/// cancelled, Slurm starts it again already, or it was submitted without requeueing.
///
/// `restarts`: SLURM_RESTART_COUNT of this run.
Result<void> check_requeue(const JobRecord& record, int restarts);

}  // namespace ddprun
