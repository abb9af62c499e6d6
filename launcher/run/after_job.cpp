#include "launcher/run/after_job.hpp"

#include "base/log.hpp"
#include "base/time.hpp"
#include "launcher/run/slurm_call.hpp"
#include "slurm/core/hostlist.hpp"
#include "slurm/core/record.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <ctime>
#include <set>
#include <string>
#include <vector>

namespace ddprun {
namespace {

using namespace std::chrono_literals;

constexpr auto kWait = 10min;   // until Slurm considers the node down
constexpr auto kInterval = 5s;  // of asking: Slurm sends no event

/// For the next submission: Slurm may not have noticed, and allocate them again.
void report_silent(const std::set<std::string>& silent) {
  if (silent.empty()) return;
  const std::vector<std::string> hosts(silent.begin(), silent.end());
  report(
      "fell silent and did not come back: {0}; `sbatch --exclude={0}` leaves it out "
      "next time",
      fold_hostlist(hosts));
}

Result<void> try_requeue(const RequeuePlan& plan) {
  const auto reply = call_slurm("scontrol", {"show", "job", "--oneliner", plan.job});
  if (!reply) return make_error(Errc::kNotFound, reply.error().detail);  // Slurm, from here
  const auto record = parse_job_record(*reply);
  if (!record) return record.error();
  const auto checked = check_requeue(*record, plan.restarts);
  if (!checked) return checked.error();
  const auto done = call_slurm("scontrol", {"requeue", plan.job});
  if (!done) return done.error();
  return {};
}

/// Yields whether Slurm was asked to start the job again; if so, it ends what is left of this run.
bool requeue(const RequeuePlan& plan, const JobOutcome& end) {
  if (plan.job.empty() || !wants_requeue(plan.mode, end)) return false;
  const auto done = try_requeue(plan);
  if (done) {
    report(
        "Slurm was asked to start job {} again: restart {} of {} at most",
        plan.job,
        plan.restarts + 1,
        kRequeuesMax);
    return true;
  }
  std::string why = done.error().detail;
  const bool is_out_of_reach = done.error().is(Errc::kNotFound) || done.error().is(Errc::kTimedOut);
  if (is_out_of_reach) {
    why += fmt::format(
        "; where ddprun ends with {}, let the batch script call 'scontrol requeue {}'",
        end.exit_status,
        plan.job);
  }
  report("job {} is not started again: {}", plan.job, why);
  return false;
}

/// A host may be known by its whole name.
std::string first_label(const std::string& host) {
  return host.substr(0, host.find('.'));
}

/// Waits until Slurm considers `node` down. Yields why it gave up; empty: Slurm does.
std::string await_down(const std::string& node, const sigset_t& signals) {
  const TimePoint until = Clock::now() + kWait;
  for (;;) {
    const auto reply = call_slurm("scontrol", {"show", "node", "--oneliner", node});
    if (!reply) return reply.error().detail;
    const auto is_down = is_node_down(*reply);
    if (!is_down) return is_down.error().detail;
    if (*is_down) return {};
    if (Clock::now() >= until) return "Slurm takes that node for alive";
    const timespec pause{.tv_sec = std::chrono::seconds(kInterval).count(), .tv_nsec = 0};
    if (::sigtimedwait(&signals, nullptr, &pause) > 0) return "this node was told to end";
  }
}

/// If the batch host is lost and --no-kill let the other nodes continue, nothing is left to end the
/// job when they are done: srun and the batch script ran there, and Slurm (seen with 22.05) leaves
/// the job RUNNING, with all of its nodes, until its time limit. So this cancels the job once Slurm
/// too considers that host lost, and yields what happened in a sentence; nothing if that host is
/// not among `silent` or the job has none.
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
    const auto done = call_slurm("scancel", {job});
    if (!done) why_not = done.error().detail;
  }
  const std::string lost = fmt::format(
      "the batch host of job {}, {}, is lost, and its script and srun with it", job, batch_host);
  if (why_not.empty()) return fmt::format("{}; the job was cancelled, so that it ends", lost);
  return fmt::format("{}; 'scancel {}' ends the job, not done here: {}", lost, job, why_not);
}

}  // namespace

std::optional<LateEvent> after_job(
    const LaunchPlan& plan,
    const RequeuePlan& again,
    const FinishedJob& end,
    const sigset_t& signals) {
  if (!plan.slurm_step.empty()) report_silent(end.silent_hosts);
  const bool starts_again = requeue(
      again,
      {.exit_status = end.exit_status,
       .notice_status = plan.notice.exit_status,
       .stopped_by = end.stopped_by});
  if (starts_again) return std::nullopt;
  auto ended = end_orphaned_job(again.job, plan.batch_host, end.silent_hosts, signals);
  if (!ended) return std::nullopt;
  return LateEvent{.event = "batch_host_lost", .text = *std::move(ended)};
}

}  // namespace ddprun
