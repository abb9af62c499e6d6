#pragma once

#include "trainer/core/worker_count.hpp"

#include <optional>
#include <string>

namespace ddprun {

/// The CPUs of this process: by its affinity mask, and by `slurm_cpus_per_task`, the value of
/// SLURM_CPUS_PER_TASK if there is one; what is no whole number of at least 1 counts as none.
CpuShare read_cpu_share(const std::optional<std::string>& slurm_cpus_per_task, int local_world);

}  // namespace ddprun
