#pragma once

// Whether a job that has ended is to be started again, and whether Slurm would do so.
//
// Slurm starts a job again by itself after a node failure or a preemption that it ends by force. A
// job that ends by itself within the grace is over, so whoever saved and left has to ask. Every
// notice looks alike to a process; why it came, scontrol knows.

#include "base/error.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace ddprun {

/// --requeue
enum class Requeue : std::uint8_t {
  kNo,
  kOnPreempt,  // where trying again may help: told by Slurm to end, or nodes were lost
  kAlways,     // after any failure
};

/// None: another word.
std::optional<Requeue> parse_requeue(std::string_view word);

/// So that a job which fails in every run ends some day.
inline constexpr int kRequeuesMax = 100;

/// How a job ended, as the node that speaks for it knows.
struct JobEnd {
  int exit_status = 0;
  int notice_status = 75;  // what it is where all workers have saved after a notice
  int stopped_by = 0;      // the first signal that was to end it; 0: none
};

/// Whether the user wants it started again. A stop that is no notice (Ctrl-C) is meant, and bad
/// usage stays what it is.
bool wants_requeue(Requeue mode, const JobEnd& end);

/// What `scontrol show job --oneliner` tells, as far as it is needed.
struct JobRecord {
  std::string state;   // "RUNNING", "COMPLETING"
  std::string reason;  // "None", "TimeLimit"
  int restarts = 0;
  bool is_batch = true;
  bool may_be_requeued = true;
};

/// Fails with kProtocol where a field is missing or has no sense.
Result<JobRecord> parse_job_record(std::string_view text);

/// Fails, with the reason in a clause, where a requeue would be one too many, or refused: the job
/// was cancelled, Slurm starts it again already, or it may not be.
///
/// `restarts`: SLURM_RESTART_COUNT of this run.
Result<void> check_requeue(const JobRecord& record, int restarts);

}  // namespace ddprun
