#pragma once

#include "slurm/core/requeue.hpp"

#include <string>

namespace ddprun {

/// Which Slurm job is to be started again, and when.
struct RequeuePlan {
  Requeue mode = Requeue::kNo;
  std::string job;   // Allocation::scontrol_id(); empty: not in a step
  int restarts = 0;  // SLURM_RESTART_COUNT
};

/// Asks Slurm by `scontrol` to start the job again, if that is wanted and useful, and reports the
/// result on stderr. Takes at most 20 s. Yields whether Slurm was asked; if so, Slurm ends what is
/// left of the job.
///
/// REQUIRES: called on the main thread, once, when no worker of the job runs any more.
bool requeue(const RequeuePlan& plan, const JobOutcome& end);

}  // namespace ddprun
