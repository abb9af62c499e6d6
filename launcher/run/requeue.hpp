#pragma once

#include "slurm/core/requeue.hpp"

#include <string>

namespace ddprun {

/// Which job of Slurm's is to be started again, and when.
struct RequeuePlan {
  Requeue mode = Requeue::kNo;
  std::string job;   // Allocation::scontrol_id(); empty: this is no step of one
  int restarts = 0;  // SLURM_RESTART_COUNT
};

/// Has Slurm start the job again if that is wanted and right, by `scontrol`, and says on stderr
/// what came of it. Takes at most 20 s. Yields whether Slurm was asked; then it ends what is left
/// of the job.
///
/// REQUIRES: called on the main thread, once, when no worker of the job runs any more.
bool requeue(const RequeuePlan& plan, const JobEnd& end);

}  // namespace ddprun
