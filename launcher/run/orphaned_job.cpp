#include "launcher/run/orphaned_job.hpp"

#include "base/time.hpp"
#include "launcher/run/slurm_call.hpp"
#include "slurm/core/record.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <ctime>

namespace ddprun {
namespace {

using namespace std::chrono_literals;

constexpr auto kWait = 10min;   // until Slurm has given up the node
constexpr auto kInterval = 5s;  // Slurm tells nobody but those who ask

/// A host may be known by its whole name.
std::string first_label(const std::string& host) {
  return host.substr(0, host.find('.'));
}

/// Until Slurm has given up `node`. Yields why not, empty: it has.
std::string await_down(const std::string& node, const sigset_t& signals) {
  const TimePoint until = Clock::now() + kWait;
  for (;;) {
    const auto told = ask_slurm("scontrol", {"show", "node", "--oneliner", node});
    if (!told) return told.error().detail;
    const auto is_down = is_node_down(*told);
    if (!is_down) return is_down.error().detail;
    if (*is_down) return {};
    if (Clock::now() >= until) return "Slurm takes that node for alive";
    const timespec pause{.tv_sec = std::chrono::seconds(kInterval).count(), .tv_nsec = 0};
    if (::sigtimedwait(&signals, nullptr, &pause) > 0) return "this node was told to end";
  }
}

}  // namespace

std::optional<std::string> end_orphaned_job(
    const std::string& job,
    const std::string& batch_host,
    const std::set<std::string>& silent,
    const sigset_t& signals) {
  const auto is_it = [&](const std::string& host) {
    return first_label(host) == first_label(batch_host);
  };
  if (job.empty() || batch_host.empty() || std::ranges::none_of(silent, is_it)) return std::nullopt;
  std::string why_not = await_down(batch_host, signals);
  if (why_not.empty()) {
    const auto done = ask_slurm("scancel", {job});
    if (!done) why_not = done.error().detail;
  }
  const std::string lost = fmt::format(
      "the batch host of job {}, {}, is lost, and its script and srun with it", job, batch_host);
  if (why_not.empty()) return fmt::format("{}; the job was cancelled, so that it ends", lost);
  return fmt::format("{}; 'scancel {}' ends the job, not done here: {}", lost, job, why_not);
}

}  // namespace ddprun
