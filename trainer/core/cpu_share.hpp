#pragma once

#include "base/environment.hpp"

#include <algorithm>
#include <optional>

namespace ddprun {

/// The CPUs of this rank, as far as the environment says.
struct CpuShare {
  std::optional<int> of_slurm;  // this rank's, by SLURM_CPUS_PER_TASK; at least 1
  int mask_ranks = 1;           // ranks that share the affinity mask of this one

  bool operator==(const CpuShare&) const = default;
};

/// SLURM_CPUS_PER_TASK is a task's. A rank that is a task itself has all of them, and a mask to
/// which srun bound it is its own, too. Ranks that a launcher forked within one task, and unbound
/// ranks, share with the other ranks of the node, `local_world` in all. REQUIRES: RANK and
/// WORLD_SIZE are filled in in the environment.
CpuShare cpu_share(const Environment& environment, int local_world);

/// The default number of threads that load data: this rank's CPUs by Slurm, else its part of the
/// `mask_cpus` on which the process may run; at least 1.
constexpr int default_data_workers(const CpuShare& share, int mask_cpus) {
  return share.of_slurm.value_or(std::max(mask_cpus / std::max(share.mask_ranks, 1), 1));
}

}  // namespace ddprun
