#include "trainer/data/cpu_share.hpp"

#include "base/parse.hpp"

#include <algorithm>
#include <thread>

#include <sched.h>

namespace ddprun {

CpuShare read_cpu_share(const std::optional<std::string>& slurm_cpus_per_task, int local_world) {
  CpuShare share{.slurm_cpus_per_task = {}, .affinity = 1, .local_world = local_world};
  cpu_set_t mask;
  CPU_ZERO(&mask);
  // A machine with more CPUs than the mask holds refuses; then all of them count.
  const bool is_known = ::sched_getaffinity(0, sizeof mask, &mask) == 0;
  const int cpus =
      is_known ? CPU_COUNT(&mask) : static_cast<int>(std::thread::hardware_concurrency());
  share.affinity = std::max(cpus, 1);
  const auto of_task = slurm_cpus_per_task ? parse_int<int>(*slurm_cpus_per_task) : std::nullopt;
  if (of_task && *of_task >= 1) share.slurm_cpus_per_task = of_task;
  return share;
}

}  // namespace ddprun
