#pragma once

#include <algorithm>
#include <optional>

namespace ddprun {

/// How many CPUs this process may think are its own.
struct CpuShare {
  std::optional<int> slurm_cpus_per_task;  // SLURM_CPUS_PER_TASK; none outside a task
  int affinity = 1;                        // CPUs on which the process may run
  int local_world = 1;                     // ranks on this node that share them
};

/// Threads that load data unless somebody says how many: the task's CPUs, else those of the
/// affinity mask, shared out among the ranks; at least 1.
constexpr int default_data_workers(const CpuShare& share) {
  const int cpus = share.slurm_cpus_per_task.value_or(share.affinity);
  return std::max(cpus / std::max(share.local_world, 1), 1);
}

}  // namespace ddprun
