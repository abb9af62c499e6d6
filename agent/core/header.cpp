#include "agent/core/header.hpp"

#include "base/check.hpp"

#include <fmt/format.h>

namespace ddprun {

std::string header_text(
    const LaunchPlan& plan, const effects::StartWorkers& round, const HeaderFacts& facts) {
  DDPRUN_CHECK(plan.header);
  const HeaderPlan& header = *plan.header;
  const std::string& python = plan.command.interpreter;
  std::string text = fmt::format(
      "ddprun: date={} host={} job={} attempt={} nodes={} workers={} gpus={} master={}",
      facts.date,
      facts.host,
      plan.job_for_people(),
      round.progress.attempt,
      round.place.group_size,
      round.place.world_size,
      header.gpus,
      round.master.to_string());
  if (!facts.interface.empty()) text += fmt::format(" interface={}", facts.interface);
  if (!python.empty()) text += fmt::format(" python={}", python);
  const bool is_one_line = header.commit.find('\n') == std::string::npos;
  if (!header.commit.empty() && is_one_line) text += fmt::format(" commit={}", header.commit);
  text += '\n';
  if (header.slurm_restarts > 0 && round.progress.attempt == 0) {
    text += fmt::format("ddprun: restarted {} times by SLURM\n", header.slurm_restarts);
  }
  return text;
}

}  // namespace ddprun
