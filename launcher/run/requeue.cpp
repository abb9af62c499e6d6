#include "launcher/run/requeue.hpp"

#include "base/standard_streams.hpp"
#include "launcher/run/slurm_call.hpp"

#include <fmt/format.h>

#include <string>

namespace ddprun {
namespace {

Result<void> try_requeue(const RequeuePlan& plan) {
  const auto told = ask_slurm("scontrol", {"show", "job", "--oneliner", plan.job});
  if (!told) return make_error(Errc::kNotFound, told.error().detail);  // Slurm, from here
  const auto record = parse_job_record(*told);
  if (!record) return record.error();
  const auto checked = check_requeue(*record, plan.restarts);
  if (!checked) return checked.error();
  const auto done = ask_slurm("scontrol", {"requeue", plan.job});
  if (!done) return done.error();
  return {};
}

}  // namespace

bool requeue(const RequeuePlan& plan, const JobOutcome& end) {
  if (plan.job.empty() || !wants_requeue(plan.mode, end)) return false;
  const auto done = try_requeue(plan);
  if (done) {
    write_stderr(fmt::format(
        "ddprun: Slurm was asked to start job {} again: restart {} of {} at most\n",
        plan.job,
        plan.restarts + 1,
        kRequeuesMax));
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
  write_stderr(fmt::format("ddprun: job {} is not started again: {}\n", plan.job, why));
  return false;
}

}  // namespace ddprun
