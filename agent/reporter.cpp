#include "agent/reporter.hpp"

#include "agent/core/header.hpp"
#include "agent/environments.hpp"
#include "agent/error_file.hpp"
#include "base/check.hpp"
#include "base/environment.hpp"
#include "base/file.hpp"
#include "base/log.hpp"
#include "base/signal_name.hpp"
#include "base/worker_contract.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <ranges>
#include <span>
#include <system_error>

namespace ddprun {
namespace {

constexpr int kLastLines = 20;

/// Nobody reads as fast as workers restart, and the CPUs are theirs meanwhile.
constexpr Duration kAfterRestart = std::chrono::milliseconds(20);

std::string until_killed(const std::optional<Duration>& kill_in) {
  if (!kill_in) return "no SIGKILL before Slurm's";
  return fmt::format("SIGKILL in {:.1f} s", to_seconds(*kill_in));
}

const char* why_killed(LeftoverMode asked, bool is_signalled) {
  switch (asked) {
    case LeftoverMode::kKill:
      return "--leftover wait or keep would let it finish";
    case LeftoverMode::kWait:
      return is_signalled ? "a signal ended the wait" : "the wait is over";
    case LeftoverMode::kKeep:
      return "they are kept only when the whole job has succeeded";
  }
  return "";
}

/// `at` as local time: "2030-01-31_12:00:00".
std::string wall_time(TimePoint at) {
  const auto ago = std::chrono::duration_cast<std::chrono::seconds>(Clock::now() - at);
  const std::time_t when = std::time(nullptr) - ago.count();
  std::tm parts{};
  std::array<char, 32> text{};
  ::localtime_r(&when, &parts);
  const std::size_t size = std::strftime(text.data(), text.size(), "%Y-%m-%d_%H:%M:%S", &parts);
  return {text.data(), size};
}

// The rest reads and writes files: for the thread of the journal's disk.

/// Fills in what the worker reported itself; forgets a path without a file.
void add_error_file(FailureDetails& details) {
  const auto content = read_file(details.error_file, kErrorFileBytesMax);
  const auto error = content ? parse_error_file(*content) : std::nullopt;
  if (!error) {
    details.error_file.clear();
    return;
  }
  details.message = error->message;
  details.traceback = error->traceback;
}

/// Finds the module that the culprit could not import, if that is why it ended.
void add_failed_import(FailureReport& report) {
  if (report.python.empty()) return;
  const FailureDetails& culprit = report.culprit;
  std::string module =
      missing_module(culprit.message.empty() ? culprit.last_lines : culprit.message);
  if (module.empty()) return;
  std::error_code gone;  // the working directory may have been deleted
  auto elsewhere = interpreters_with(
      module, report.python, std::filesystem::current_path(gone), current_environment());
  report.failed_import =
      FailedImport{.module = std::move(module), .elsewhere = std::move(elsewhere)};
}

/// The error message, if any.
std::string pass_up(const FailureDetails& culprit, const std::string& path) {
  const auto content = read_file(culprit.error_file, kErrorFileBytesMax);
  if (!content) return "";
  const ProcessEnd& end = culprit.failure.end;
  const int code = end.signal != 0 ? -end.signal : end.code;
  const auto written = overwrite_file(path, with_error_code(*content, code));
  if (written) return "";
  return fmt::format("ddprun: cannot copy the error file: {}\n", written.error().detail);
}

/// The paragraph, and the block before it unless the job restarts.
std::string failure_text(const FailureReport& report) {
  const std::string block = report.outcome.restarts ? "" : failure_block(report);
  return block + failure_paragraph(report);
}

struct ShownFailure {
  std::string text;                   // for this node's console
  std::vector<TextLine> last_output;  // for another node's console
};

/// The whole text of a failure, with the workers' last lines and error files: the paragraph, and
/// the block before it unless the job restarts. `last_lines` are the culprit's, then those of the
/// other workers that are shown. Copies the culprit's error file, with the exit code added, to
/// `pass_up_to` (our own TORCHELASTIC_ERROR_FILE) unless that is empty.
ShownFailure report_failure(
    FailureReport report, std::span<const LastLines> last_lines, const std::string& pass_up_to) {
  report.culprit.last_lines = last_lines.front()();
  for (std::size_t i = 1; i < last_lines.size(); ++i) {
    report.others[i - 1].last_lines = last_lines[i]();
  }
  add_error_file(report.culprit);
  add_failed_import(report);
  ShownFailure out;
  if (!report.outcome.restarts) {
    for (auto& other : report.others) {
      add_error_file(other);
    }
  }
  out.text = failure_text(report);
  if (!pass_up_to.empty()) out.text += pass_up(report.culprit, pass_up_to);
  out.last_output = last_output(report);
  return out;
}

/// The same if the disk of the log directory does not respond.
std::string failure_without_files(FailureReport report) {
  report.culprit.error_file.clear();
  for (FailureDetails& other : report.others) {
    other.error_file.clear();
  }
  return failure_text(report) +
         "ddprun: the disk of the log directory does not respond: what the worker wrote last is "
         "not "
         "shown\n";
}

/// The last line of a worker's output (comparable_line).
std::string read_last_line(FailureDetails details, const LastLines& last_lines) {
  details.last_lines = last_lines();
  add_error_file(details);
  return comparable_line(error_text(details));
}

/// Writes the stacks to the file, for the thread of the journal's disk. Yields the paragraph.
std::string report_hang(HangReport report, const std::string& stacks) {
  const auto written = overwrite_file(report.stacks, hang_paragraph(report) + "\n" + stacks);
  if (!written) report.stacks.clear();
  return hang_paragraph(report);
}

}  // namespace

void Reporter::round_begins(const effects::StartWorkers& round, const std::string& interface) {
  if (is_undecided()) {  // the leader that decided this round did not live to report it
    Outcome outcome;
    outcome.restarts = true;
    outcome.restarts_used = round.progress.restarts_used;
    outcome.restarts_max = from_.plan.max_restarts;
    conclude(outcome);
  }
  if (from_.plan.header && round.place.first_rank == 0) {
    from_.journal.report_lines(header_text(
        from_.plan,
        round,
        {.date = wall_time(Clock::now()), .host = from_.host, .interface = interface}));
  }
  torch_events_.round_begins(round);
}

void Reporter::worker_started(int rank, int local_rank, pid_t pid) {
  torch_events_.worker_started(local_rank, pid);
  if (from_.plan.debug_rank != rank) return;
  from_.journal.report(fmt::format(
      "rank {} is process {} on {}; attach, then kill -USR1 {}", rank, pid, from_.host, pid));
}

void Reporter::start_is_slow(int rank) {
  if (from_.workers.is_importing()) {
    from_.journal.report(fmt::format(
        "the workers of {} have not started yet: the fork server still imports {}; next: they "
        "start once it is done",
        from_.host,
        from_.plan.preload == "auto" ? "what the script imports" : from_.plan.preload));
    return;
  }
  const std::string log_disk =
      from_.streams.directory().empty()
          ? ""
          : fmt::format("the log directory {} or of ", from_.streams.directory().string());
  from_.journal.report(fmt::format(
      "rank {} on {} has not started yet: the disk of {}its program does not respond; next: it "
      "starts once the disk responds",
      rank,
      from_.host,
      log_disk));
}

void Reporter::fork_server_lost(const std::string& why) {
  from_.journal.report(fmt::format(
      "--preload: {}; next: the workers of {} are executed, and import everything themselves",
      why,
      from_.host));
}

void Reporter::notice_came(int signal, std::optional<Duration> grace) {
  from_.journal.report(fmt::format(
      "told to stop by {}: the workers may save and end{}; a second signal ends them at once",
      signal_name(signal),
      grace ? fmt::format(", for {:.0f} s", to_seconds(*grace)) : ""));
}

void Reporter::hung(HangReport report, std::string stacks) {
  HangReport without = report;
  const auto& directory = from_.streams.directory();
  if (!directory.empty()) {
    report.stacks = directory / fmt::format("hang_{}.txt", wall_time(Clock::now()));
  }
  from_.journal.report_read(
      [report = std::move(report), stacks = std::move(stacks)] {
        return report.stacks.empty() ? hang_paragraph(report) : report_hang(report, stacks);
      },
      [without = std::move(without)] { return hang_paragraph(without); });
}

void Reporter::timer_expired(const FileTimerRequest& timer) {
  from_.journal.report(fmt::format(
      "process {} on {} let its timer '{}' expire; {}",
      timer.pid,
      from_.host,
      timer.scope,
      timer.signal > 0 ? fmt::format("it is sent {}", signal_name(timer.signal)) : "it continues"));
}

void Reporter::wait_began(const Supervisor::Waits& wait, int first_rank) {
  if (wait.local_ranks.empty()) return wait_for_children_began(wait);
  constexpr std::size_t kShownMax = 8;
  const std::span ranks(wait.local_ranks);
  std::string who;
  for (const int local_rank : ranks.first(std::min(kShownMax, ranks.size()))) {
    const pid_t pid = from_.workers.pid_of(local_rank);
    who += fmt::format(
        "{}rank {} ({})",
        who.empty() ? "" : ", ",
        first_rank + local_rank,
        pid == 0 ? "being started" : fmt::format("pid {}", pid));
  }
  if (ranks.size() > kShownMax) who += ", ...";
  from_.journal.report(fmt::format(
      "waiting for {} of {} workers on {} to end: {}; {}",
      ranks.size(),
      from_.plan.workers,
      from_.host,
      who,
      until_killed(wait.kill_in)));
}

void Reporter::wait_for_children_began(const Supervisor::Waits& wait) {
  const std::string who = from_.workers.leftovers();
  if (who.empty()) return;  // the last of them has just ended
  from_.journal.report(fmt::format(
      "waiting for what workers left behind on {} to end: {}; {}",
      from_.host,
      who,
      until_killed(wait.kill_in)));
}

void Reporter::leftovers_found(LeftoverMode mode, bool is_signalled) {
  const std::string who = from_.workers.leftovers();
  if (who.empty()) return;  // the last of them has just ended
  const std::string what = fmt::format("what workers left behind on {}", from_.host);
  const LeftoverPlan& asked = from_.plan.leftovers;
  switch (mode) {
    case LeftoverMode::kKill:
      return from_.journal.report(
          fmt::format("killing {}: {}; {}", what, who, why_killed(asked.mode, is_signalled)));
    case LeftoverMode::kWait:
      return from_.journal.report(fmt::format(
          "waiting for {}: {}; timeout {:g} s; a signal ends the wait",
          what,
          who,
          to_seconds(asked.limit)));
    case LeftoverMode::kKeep:
      return from_.journal.report(fmt::format("{} lives on: {}", what, who));
  }
}

void Reporter::keep(const Supervisor::News& news, const effects::StartWorkers& round) {
  // Workers that we stopped because a person or another node asked for it have not failed.
  if (news.failures.empty() || news.failures.front().stopped_by_us) return;
  static_cast<void>(report_kept());  // of an earlier round
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
  kept_ = std::move(out);
  kept_round_ = round.round;
  is_concluded_ = false;
}

void Reporter::conclude(const Outcome& outcome) {
  DDPRUN_CHECK(kept_);
  kept_->outcome = outcome;
  is_concluded_ = true;
}

void Reporter::order_came(bool is_reported_elsewhere) {
  is_reported_elsewhere_ = is_reported_elsewhere;
  has_reported_stop_ = false;
}

void Reporter::report_end(const RoundEnd& end, int world_size) {
  if (!end.order) return;
  const StopRound& order = *end.order;
  has_reported_end_ = has_reported_end_ || (order.culprit && !order.restarts);
  if (end.began_here()) {
    if (!is_undecided()) return;
    conclude(end.outcome());
    from_.tasks.spawn(report_kept_after(order.restarts ? kAfterRestart : Duration::zero()));
    return;
  }
  // A failure here in the round before may not be reported yet: this one was over at once.
  from_.tasks.spawn(pass_on(report_kept()));
  kept_.reset();
  if (std::exchange(has_reported_stop_, true)) return;
  // If a worker failed, its node says more than this line.
  const bool has_paragraph = order.culprit && order.culprit->pid != 0;
  if (is_reported_elsewhere_ || (from_.plan.shares_console && has_paragraph)) return;
  from_.journal.report_lines(stop_line(from_.plan.command.title, order, end.outcome(), world_size));
}

void Reporter::finish(int exit_status, int stopped_by) {
  if (is_undecided()) {
    Outcome outcome;
    outcome.exit_status = exit_status;
    outcome.restarts_max = from_.plan.max_restarts;
    outcome.is_undecided = true;
    outcome.stopped_by = stopped_by;
    conclude(outcome);
  }
  static_cast<void>(report_kept());
  torch_events_.job_ended(exit_status);
}

asio::awaitable<void> Reporter::report_kept_after(Duration pause) {
  Timer restarted(co_await asio::this_coro::executor, Clock::now() + pause);
  co_await restarted.async_wait(kTuple);
  co_await pass_on(report_kept());
}

/// To the leader, for its console, once it was read for the report here.
asio::awaitable<void> Reporter::pass_on(std::optional<LastOutput> output) {
  if (!output || !output->lines) co_return;
  Timer no_limit(co_await asio::this_coro::executor, kNever);
  auto lines = co_await output->lines->await(no_limit);
  if (!lines || !*lines) co_return;
  failure_read_({.round = output->round, .rank = output->rank, .lines = **std::move(lines)});
}

/// Reports what was kept, if it is known what follows.
std::optional<Reporter::LastOutput> Reporter::report_kept() {
  if (!is_concluded_ || !kept_) return std::nullopt;
  FailureReport report = *std::move(kept_);
  kept_.reset();
  std::vector<LastLines> last_lines{last_lines_of(report.attempt, report.culprit)};
  const std::size_t in_block = report.outcome.restarts ? 0 : kOthersShownMax;
  for (const FailureDetails& other : report.others | std::views::take(in_block)) {
    last_lines.push_back(last_lines_of(report.attempt, other));
  }
  const char* const own = std::getenv(contract::kErrorFile);  // NOLINT(concurrency-mt-unsafe)
  const std::string pass_up_to = own == nullptr || report.outcome.restarts ? "" : own;
  LastOutput output{.round = kept_round_, .rank = report.culprit.rank, .lines = nullptr};
  if (auto lines = Errand<std::vector<TextLine>>::open("cannot read a failure")) {
    output.lines = *std::move(lines);
  }
  const auto kept = std::make_shared<const FailureReport>(std::move(report));
  from_.journal.report_read(
      [kept, last_lines = std::move(last_lines), pass_up_to, lines = output.lines] {
        ShownFailure composed = report_failure(*kept, last_lines, pass_up_to);
        if (lines) lines->complete(std::move(composed.last_output));
        return composed.text;
      },
      [kept, lines = output.lines] {
        if (lines) lines->complete(make_error(Errc::kTimedOut, "the disk does not respond"));
        return failure_without_files(*kept);
      });
  return output;
}

FailureDetails Reporter::details_of(
    const WorkerFailure& failure, const effects::StartWorkers& round) const {
  FailureDetails details;
  details.failure = failure;
  details.rank = round.place.first_rank + failure.local_rank;
  details.wall_time = wall_time(failure.at);
  const WorkerId worker{
      .attempt = round.progress.attempt, .local_rank = failure.local_rank, .rank = details.rank};
  details.error_file = from_.streams.error_file_of(worker);
  details.log = from_.streams.log_of(worker);
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
