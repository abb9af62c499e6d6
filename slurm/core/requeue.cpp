#include "slurm/core/requeue.hpp"

#include "base/exit_status.hpp"
#include "base/format_error.hpp"
#include "base/parse.hpp"
#include "base/worker_contract.hpp"
#include "slurm/core/excerpt.hpp"
#include "slurm/core/record.hpp"

#include <array>
#include <utility>

namespace ddprun {
namespace {

constexpr std::array<std::pair<std::string_view, Requeue>, 3> kWords = {
    {{"never", Requeue::kNo}, {"on-preempt", Requeue::kOnPreempt}, {"always", Requeue::kAlways}}};

}  // namespace

std::optional<Requeue> parse_requeue(std::string_view word) {
  for (const auto& [name, mode] : kWords) {
    if (name == word) return mode;
  }
  return std::nullopt;
}

bool wants_requeue(Requeue mode, const JobOutcome& end) {
  const bool is_a_persons = end.stopped_by == SIGINT;
  if (mode == Requeue::kNo || end.exit_status == kExitOk || is_a_persons) return false;
  const bool is_noticed = contract::is_notice(end.stopped_by);
  if (is_noticed || end.exit_status == end.notice_status) return true;
  if (mode == Requeue::kOnPreempt) return end.exit_status == kExitTryAgain;
  const bool is_usage = end.exit_status == kExitUsage || end.exit_status == kExitNotExecutable ||
                        end.exit_status == kExitNotFound;
  return end.stopped_by == 0 && !is_usage;
}

Result<JobRecord> parse_job_record(std::string_view text) {
  const auto state = field_of(text, "JobState");
  const auto reason = field_of(text, "Reason");
  const auto restarts = parse_int<int>(field_of(text, "Restarts").value_or(""));
  if (!state || !reason || !restarts) {
    return format_error(
        Errc::kProtocol, "scontrol printed no JobState, Reason or Restarts: '{}'", excerpt(text));
  }
  return JobRecord{
      .state = std::string(*state),
      .reason = std::string(*reason),
      .restarts = *restarts,
      .is_batch = field_of(text, "BatchFlag") != "0",
      .may_be_requeued = field_of(text, "Requeue") != "0"};
}

Result<void> check_requeue(const JobRecord& record, int restarts) {
  if (record.restarts > restarts) return invalid_argument("Slurm already starts it again");
  if (restarts >= kRequeuesMax) {
    return invalid_argument("it was already started again {} times", restarts);
  }
  if (!record.is_batch) return invalid_argument("it was not submitted by sbatch");
  if (!record.may_be_requeued) return invalid_argument("it was submitted with --no-requeue");
  const bool is_out_of_time =
      record.reason == "TimeLimit" || record.state == "TIMEOUT" || record.state == "PREEMPTED";
  // While Slurm sends the job a signal, SIGNALING replaces RUNNING: here the notice, if the
  // controller is slower than the workers save. A cancelled job is COMPLETING.
  const bool is_running = record.state == "RUNNING" || record.state == "SIGNALING";
  if (is_running || is_out_of_time) return {};
  return invalid_argument("it was ended from outside (state {})", record.state);
}

}  // namespace ddprun
