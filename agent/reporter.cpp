#include "agent/reporter.hpp"

#include "agent/core/header.hpp"
#include "agent/report.hpp"
#include "base/worker_contract.hpp"

#include <fmt/format.h>

#include <cstddef>
#include <cstdlib>
#include <ranges>
#include <utility>

namespace ddprun {
namespace {

constexpr int kLastLines = 20;

}  // namespace

void Reporter::attempt_begins(const effects::StartWorkers& round, const std::string& interface) {
  const bool has_rank_0 = round.place.first_rank == 0;
  if (!from_.plan.header || !has_rank_0) return;
  from_.journal.report([text = header_text(
                            *from_.plan.header,
                            from_.plan.job_for_people(),
                            {.date = wall_time(Clock::now()),
                             .host = from_.host,
                             .attempt = round.progress.attempt,
                             .nodes = round.place.group_size,
                             .workers = round.place.world_size,
                             .master = round.master,
                             .interface = interface,
                             .python = from_.plan.command.interpreter})] { return text; });
}

void Reporter::worker_waits(int rank, pid_t pid) {
  from_.journal.report([text = fmt::format(
                            "ddprun: rank {} is process {} on {}; attach, then kill -USR1 {}\n",
                            rank,
                            pid,
                            from_.host,
                            pid)] { return text; });
}

void Reporter::note(const Supervisor::News& news, const effects::StartWorkers& round) {
  // The end of workers that we stopped for a person or another node is not a failure.
  if (news.failures.empty() || news.failures.front().stopped_by_us) return;
  static_cast<void>(report());  // of an earlier round
  FailureReport out;
  out.title = from_.plan.command.title;
  out.python = from_.plan.command.interpreter;
  out.host = from_.host;
  out.workers = round.place.world_size;
  out.attempt = round.progress.attempt;
  out.ran_for = news.ran_for;
  for (const auto& failure : news.failures) {
    out.others.push_back(details_of(failure, round));
  }
  out.culprit = std::move(out.others.front());
  out.others.erase(out.others.begin());
  noted_ = std::move(out);
  round_ = round.round;
  is_concluded_ = false;
}

FailureDetails Reporter::details_of(
    const WorkerFailure& failure, const effects::StartWorkers& round) const {
  FailureDetails details;
  details.failure = failure;
  details.rank = round.place.first_rank + failure.local_rank;
  details.wall_time = wall_time(failure.at);
  details.error_file = from_.workers.error_file_of(failure.local_rank);
  details.log = from_.streams.log_of(
      {.attempt = round.progress.attempt, .local_rank = failure.local_rank, .rank = details.rank});
  details.shown = shown(failure.local_rank);
  return details;
}

StderrShown Reporter::shown(int local_rank) const {
  if (!from_.streams.shows_stderr(local_rank)) return StderrShown::kNo;
  return from_.streams.has_own_stderr(local_rank) ? StderrShown::kDirectly : StderrShown::kPassedOn;
}

LastLines Reporter::last_lines_of(int attempt, const FailureDetails& details) const {
  return from_.streams.last_lines(
      {.attempt = attempt, .local_rank = details.failure.local_rank, .rank = details.rank},
      kLastLines);
}

void Reporter::conclude(const Outcome& outcome) {
  if (!noted_) return;
  noted_->outcome = outcome;
  is_concluded_ = true;
}

std::optional<Reporter::LastOutput> Reporter::report() {
  if (!is_concluded_ || !noted_) return std::nullopt;
  FailureReport report = *std::move(noted_);
  noted_.reset();
  std::vector<LastLines> last_lines{last_lines_of(report.attempt, report.culprit)};
  const std::size_t in_block = report.outcome.restarts ? 0 : kOthersShownMax;
  for (const FailureDetails& other : report.others | std::views::take(in_block)) {
    last_lines.push_back(last_lines_of(report.attempt, other));
  }
  const char* const own = std::getenv(contract::kErrorFile);  // NOLINT(concurrency-mt-unsafe)
  const std::string pass_up_to = own == nullptr || report.outcome.restarts ? "" : own;
  LastOutput output{.round = round_, .rank = report.culprit.rank, .lines = nullptr};
  if (auto lines = Errand<std::vector<TextLine>>::open("cannot read a failure")) {
    output.lines = *std::move(lines);
  }
  from_.journal.report([report = std::move(report),
                        last_lines = std::move(last_lines),
                        pass_up_to,
                        lines = output.lines] {
    ToldFailure told = report_failure(report, last_lines, pass_up_to);
    if (lines) lines->complete(std::move(told.last_output));
    return told.text;
  });
  return output;
}

std::shared_ptr<Errand<std::string>> Reporter::read_last_line(
    const WorkerFailure& failure, const effects::StartWorkers& round) const {
  auto line = Errand<std::string>::open("cannot read a failure");
  if (!line) return nullptr;
  const FailureDetails details = details_of(failure, round);
  from_.journal.post(
      [line = *line, details, last_lines = last_lines_of(round.progress.attempt, details)] {
        line->complete(ddprun::read_last_line(details, last_lines));
      });
  return *std::move(line);
}

}  // namespace ddprun
