#include "trainer/core/cpu_share.hpp"

#include "base/parse.hpp"
#include "base/worker_contract.hpp"

#include <string>

namespace ddprun {
namespace {

std::optional<std::string> find(const Environment& environment, const char* name) {
  const auto found = environment.find(name);
  if (found == environment.end()) return std::nullopt;
  return found->second;
}

/// Whether Slurm started this rank as a task of its own, whatever set RANK.
bool is_task(const Environment& environment) {
  if (environment.contains(contract::kRunId)) return false;  // ddprun or torchrun is the task
  // Without a job, a person has set them by hand, and no step is needed.
  const bool has_job = environment.contains("SLURM_JOB_ID");
  const auto task = find(environment, "SLURM_PROCID");
  const auto tasks = find(environment, has_job ? "SLURM_STEP_NUM_TASKS" : "SLURM_NTASKS");
  return task && tasks && task == find(environment, contract::kRank) &&
         tasks == find(environment, contract::kWorldSize);
}

/// Whether srun gave each task its own CPUs; else all tasks have the step's.
bool is_bound(const Environment& environment) {
  const std::string type = find(environment, "SLURM_CPU_BIND_TYPE").value_or("");
  return type.starts_with("mask_cpu") || type.starts_with("map_cpu");
}

}  // namespace

CpuShare cpu_share(const Environment& environment, int local_world) {
  const int ranks = std::max(local_world, 1);
  const bool is_own = is_task(environment);
  CpuShare share{.of_slurm = {}, .mask_ranks = is_own && is_bound(environment) ? 1 : ranks};
  const auto text = find(environment, "SLURM_CPUS_PER_TASK");
  const auto of_task = text ? parse_int<int>(*text) : std::nullopt;
  if (of_task && *of_task >= 1) share.of_slurm = is_own ? *of_task : std::max(*of_task / ranks, 1);
  return share;
}

}  // namespace ddprun
