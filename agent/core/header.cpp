#include "agent/core/header.hpp"

#include <fmt/format.h>

namespace ddprun {

std::string header_text(
    const HeaderPlan& header, std::string_view run_id, const HeaderFacts& facts) {
  std::string text = fmt::format(
      "ddprun: date={} host={} job={} attempt={} nodes={} workers={} gpus={} master={}",
      facts.date,
      facts.host,
      run_id,
      facts.attempt,
      facts.nodes,
      facts.workers,
      header.gpus,
      facts.master.to_string());
  if (!facts.interface.empty()) text += fmt::format(" interface={}", facts.interface);
  if (!facts.python.empty()) text += fmt::format(" python={}", facts.python);
  const bool is_one_line = header.commit.find('\n') == std::string::npos;
  if (!header.commit.empty() && is_one_line) text += fmt::format(" commit={}", header.commit);
  text += '\n';
  if (header.slurm_restarts > 0 && facts.attempt == 0) {
    text += fmt::format("ddprun: restarted {} times by SLURM\n", header.slurm_restarts);
  }
  return text;
}

}  // namespace ddprun
