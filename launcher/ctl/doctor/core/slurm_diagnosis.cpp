#include "base/parse.hpp"
#include "launcher/ctl/doctor/core/diagnosis.hpp"
#include "slurm/core/allocation.hpp"
#include "slurm/core/excerpt.hpp"
#include "slurm/core/hostlist.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace ddprun {
namespace {

using Environment = std::map<std::string, std::string>;

constexpr char kDoNotSet[] = "do not set SLURM_ variables by hand; start it by sbatch and srun";

std::string value_of(const Environment& environment, const char* name) {
  const auto found = environment.find(name);
  return found == environment.end() ? "" : found->second;
}

Finding judge_step(const Allocation& step, const Environment& environment) {
  Finding finding{.subject = "slurm", .seen = "", .remedy = ""};
  finding.seen = fmt::format(
      "node {} of {} in step {}.{}, of {} nodes in the job",
      step.node_id,
      step.nodes.size(),
      step.job_id,
      step.step_id,
      step.job_nodes);
  const std::string host = value_of(environment, "SLURMD_NODENAME");
  if (step.has_shared_nodes()) {
    return refused("slurm", agents_share_nodes(step), "srun --ntasks-per-node=1");
  }
  if (!host.empty() && host != step.node_name()) {
    finding.seen = fmt::format(
        "SLURMD_NODENAME is '{}', but node {} of SLURM_STEP_NODELIST is '{}'",
        excerpt(host),
        step.node_id,
        step.node_name());
    finding.remedy = kDoNotSet;
  }
  return finding;
}

/// The job's list of hosts; the job may have more nodes than the step.
Finding judge_hostlist(const std::string& list, const Environment& environment) {
  Finding finding{.subject = "hostlist", .seen = "", .remedy = ""};
  const auto hosts = expand_hostlist(list);
  if (!hosts) return refused("hostlist", hosts.error(), kDoNotSet);
  const std::string setting = value_of(environment, "SLURM_JOB_NUM_NODES");
  finding.seen = fmt::format("SLURM_JOB_NODELIST '{}' is {} hosts", excerpt(list), hosts->size());
  if (!setting.empty() && parse_int<std::size_t>(setting) != hosts->size()) {
    finding.seen += fmt::format(", but SLURM_JOB_NUM_NODES is '{}'", excerpt(setting));
    finding.remedy = kDoNotSet;
  }
  auto sorted = *hosts;
  std::ranges::sort(sorted);
  if (const auto twice = std::ranges::adjacent_find(sorted); twice != sorted.end()) {
    finding.seen = fmt::format("SLURM_JOB_NODELIST '{}' has {} twice", excerpt(list), *twice);
    finding.remedy = kDoNotSet;
  }
  return finding;
}

}  // namespace

Findings judge_slurm(const Environment& environment) {
  Findings findings;
  const auto found = find_allocation(environment);
  const std::string job = value_of(environment, "SLURM_JOB_ID");
  const auto step = found ? *found : std::nullopt;
  if (!found) {
    findings.push_back(refused("slurm", found.error(), kDoNotSet));
  } else if (step) {
    findings.push_back(judge_step(*step, environment));
  } else {
    findings.push_back(
        {.subject = "slurm",
         .seen = job.empty() ? "not in a job"
                             : fmt::format(
                                   "in job {}, but not in a step: srun --ntasks-per-node=1 "
                                   "ddpctl doctor checks each of its nodes",
                                   excerpt(job)),
         .remedy = ""});
  }
  const std::string list = value_of(environment, "SLURM_JOB_NODELIST");
  if (!list.empty()) findings.push_back(judge_hostlist(list, environment));
  return findings;
}

}  // namespace ddprun
