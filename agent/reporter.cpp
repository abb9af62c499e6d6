#include "agent/reporter.hpp"

#include "agent/report.hpp"
#include "base/worker_contract.hpp"

#include <cstdlib>
#include <utility>

namespace ddprun {
namespace {

constexpr int kLastLines = 20;

}  // namespace

void Reporter::note(const AttemptReport& report) {
  // Workers that we stopped because a person asked for it are no news.
  if (report.stopped_by != 0 && report.failures.front().stopped_by_us) return;
  FailureReport out;
  out.title = from_.plan.command.title;
  out.host = from_.host;
  out.workers = from_.plan.workers;
  out.attempt = report;
  for (const auto& failure : report.failures) {
    const WorkerId id = worker_id(report.attempt, failure.local_rank);
    FailureDetails details;
    details.failure = failure;
    details.rank = id.rank;
    details.wall_time = wall_time(failure.at);
    details.error_file = from_.workers.error_file_of(failure.local_rank);
    details.log = from_.streams.log_of(id);
    out.others.push_back(std::move(details));
  }
  out.culprit = std::move(out.others.front());
  out.others.erase(out.others.begin());
  noted_ = std::move(out);
}

void Reporter::tell() {
  auto report = std::exchange(noted_, std::nullopt);
  if (!report) return;
  const WorkerId culprit = worker_id(report->attempt.attempt, report->culprit.failure.local_rank);
  report->culprit.last_lines = from_.streams.last_lines(culprit, kLastLines);
  const char* const own = std::getenv(contract::kErrorFile);  // NOLINT(concurrency-mt-unsafe)
  const std::string pass_up_to = own == nullptr || report->attempt.restarts ? "" : own;
  from_.journal.tell(
      [report = *std::move(report), pass_up_to] { return tell_failure(report, pass_up_to); });
}

}  // namespace ddprun
