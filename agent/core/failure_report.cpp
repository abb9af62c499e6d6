#include "agent/core/failure_report.hpp"

#include "agent/core/tail.hpp"
#include "agent/core/traceback.hpp"
#include "base/parse.hpp"
#include "base/signal_name.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <string_view>

namespace ddprun {
namespace {

constexpr std::size_t kRuleWidthMax = 60;
constexpr std::string_view kNoOthers = "  <NO_OTHER_FAILURES>\n";
constexpr std::string_view kContinuation = "\n              ";  // below a field's value
constexpr std::string_view kNameLetters =
    "_abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";

std::string indented(std::string_view text, std::string_view margin) {
  std::string out;
  for (const auto line : split(text, '\n')) {
    out += fmt::format("{}{}\n", margin, line);
  }
  return out;
}

/// A value of the block, whose lines are below each other.
std::string indented_below(std::string_view text) {
  std::string out;
  for (const auto line : split(text, '\n')) {
    if (!out.empty()) out += kContinuation;
    out += line;
  }
  return out;
}

std::string_view last_line(std::string_view text) {
  return trim(split(trim(text), '\n').back());
}

/// The paragraph has the last lines, unless this console already had them.
bool has_last_lines(const FailureDetails& details) {
  return details.shown == StderrShown::kNo && !details.last_lines.empty();
}

/// Of Python: what the worker wrote from its traceback on, else that of the error file. Empty: none
/// is known.
std::string_view whole_traceback(const FailureDetails& details) {
  const std::size_t begin = traceback_begin(details.last_lines);
  if (begin == std::string::npos) return details.traceback;
  return std::string_view(details.last_lines).substr(begin);
}

/// In the block: the last line of the traceback, of which all is in the paragraph if `is_culprit`,
/// unless the worker wrote it to this terminal; else the message, else how the worker ended.
std::string traceback_of(const FailureDetails& details, bool is_culprit) {
  const WorkerFailure& failure = details.failure;
  if (const auto traceback = whole_traceback(details); !traceback.empty()) {
    const char* const where = details.shown == StderrShown::kDirectly ? "above" : "below";
    return is_culprit ? fmt::format("{} (its traceback is {})", cause_line(traceback), where)
                      : std::string(cause_line(traceback));
  }
  if (!details.message.empty()) return indented_below(details.message);
  if (!failure.start_error.empty()) return indented_below(failure.start_error);
  if (failure.end.signal == 0) return "<N/A>";
  return fmt::format(
      "Signal {} ({}) received by PID {}",
      failure.end.signal,
      signal_name(failure.end.signal),
      failure.pid);
}

/// The culprit has index 0.
std::string entry(int index, const FailureDetails& details, const std::string& host) {
  const WorkerFailure& failure = details.failure;
  const int code = failure.end.signal != 0 ? -failure.end.signal : failure.end.code;
  return fmt::format(
      "[{}]:\n"
      "  time      : {}\n"
      "  host      : {}\n"
      "  rank      : {} (local_rank: {})\n"
      "  exitcode  : {} (pid: {}){}\n"
      "  error_file: {}\n"
      "  traceback : {}\n",
      index,
      details.wall_time,
      host,
      details.rank,
      failure.local_rank,
      code,
      failure.pid,
      failure.stopped_by_us ? " (stopped by ddprun)" : "",
      details.error_file.empty() ? "<N/A>" : details.error_file,
      traceback_of(details, index == 0));
}

std::string other_entries(const FailureReport& report) {
  if (report.others.empty()) return std::string(kNoOthers);
  std::string out;
  int index = 0;
  for (const auto& other : report.others) {
    if (index == kOthersShownMax) break;
    out += entry(++index, other, report.host);
  }
  const auto hidden = std::ssize(report.others) - index;
  if (hidden > 0) out += fmt::format("  ... and {} more\n", hidden);
  return out;
}

std::size_t longest_line(std::string_view text) {
  std::size_t longest = 0;
  for (const auto line : split(text, '\n')) {
    longest = std::max(longest, line.size());
  }
  return longest;
}

std::string how_it_repeats(const Outcome& outcome) {
  return fmt::format(
      "the last two attempts ended alike, with status {} before any worker had reached the store",
      outcome.exit_status);
}

std::string ends_with(const Outcome& outcome) {
  return fmt::format(
      "ddprun ends with {} {}",
      outcome.has_started ? "this worker's status," : "status",
      outcome.exit_status);
}

std::string what_happens_next(const Outcome& outcome, int workers) {
  if (outcome.stopped_by != 0) {
    return fmt::format(
        "ddprun was told to stop by {} and ends with status {}",
        signal_name(outcome.stopped_by),
        outcome.exit_status);
  }
  if (outcome.restarts && outcome.restarts_used == 0) {  // a node was lost at the same time
    return fmt::format("restarting all {} workers, not counted as a restart", workers);
  }
  if (outcome.restarts) {
    return fmt::format(
        "restarting all {} workers{} (restart {} of {}){}{}",
        workers,
        outcome.pause > Duration() ? fmt::format(" in {:g} s", to_seconds(outcome.pause)) : "",
        outcome.restarts_used,
        outcome.restarts_max,
        outcome.crashes > 1
            ? fmt::format(
                  ", since {} attempts in a row failed soon after their start", outcome.crashes)
            : "",
        outcome.repeats ? fmt::format("; that is unlikely to help: {}", how_it_repeats(outcome))
                        : "");
  }
  if (!outcome.can_be_retried) {
    return fmt::format(
        "nothing, since another try would end alike; ddprun ends with status {}",
        outcome.exit_status);
  }
  if (outcome.repeats && outcome.restarts_used < outcome.restarts_max) {
    return fmt::format(
        "nothing (--restart-policy progress), since {}; {}",
        how_it_repeats(outcome),
        ends_with(outcome));
  }
  if (outcome.restarts_max == 0) {
    return ends_with(outcome) + " (--max-restarts would allow restarts)";
  }
  if (outcome.is_undecided) {
    return "nothing, since ddprun ends before a restart was decided; " + ends_with(outcome);
  }
  return fmt::format(
      "the {} of --max-restarts {} used up; {}",
      outcome.restarts_max == 1 ? "one restart" : fmt::format("{} restarts", outcome.restarts_max),
      outcome.restarts_max == 1 ? "is" : "are",
      ends_with(outcome));
}

std::string who_and_how(const FailureReport& report) {
  const WorkerFailure& failure = report.culprit.failure;
  if (!failure.start_error.empty()) {
    return fmt::format(
        "ddprun: {} did not start on {}: {}\n", report.title, report.host, failure.how());
  }
  return fmt::format(
      "ddprun: {} failed on {}: rank {} (local rank {}, pid {}) {}, {:.1f} s into attempt {}\n",
      report.title,
      report.host,
      report.culprit.rank,
      failure.local_rank,
      failure.pid,
      failure.how(),
      to_seconds(report.ran_for),
      report.attempt);
}

/// Which Python ran it, if that may be the cause: an import failed, or no output is known.
std::string about_python(const FailureReport& report) {
  const FailureDetails& culprit = report.culprit;
  const bool is_unseen =
      culprit.last_lines.empty() && culprit.message.empty() && culprit.failure.end.code == 1;
  if (report.python.empty() || (!report.failed_import && !is_unseen)) return {};
  if (!report.failed_import) return fmt::format("  its Python: {}\n", report.python);
  const auto& [module, elsewhere] = *report.failed_import;
  const std::string out =
      fmt::format("  its Python: {} has no module '{}'; ", report.python, module);
  if (elsewhere.empty()) {
    return out + "install it there, or set PYTHON_EXEC to a Python that has it\n";
  }
  return out + fmt::format("set PYTHON_EXEC to one that has it: {}\n", fmt::join(elsewhere, ", "));
}

}  // namespace

std::string failure_block(const FailureReport& report) {
  const std::string title = fmt::format("{} FAILED\n", report.title);
  const std::string failures = "Failures:\n" + other_entries(report);
  const std::string root =
      "Root Cause (first observed failure):\n" + entry(0, report.culprit, report.host);
  const std::size_t width = std::min(kRuleWidthMax, longest_line(title + failures + root));
  const std::string thick = std::string(width, '=') + "\n";
  const std::string thin = std::string(width, '-') + "\n";
  return thick + title + thin + failures + thin + root + thick;
}

std::string failure_paragraph(const FailureReport& report) {
  const FailureDetails& culprit = report.culprit;
  std::string out = who_and_how(report);
  if (!culprit.message.empty()) {
    out += fmt::format("  it said: {}\n", split(culprit.message, '\n').front());
  }
  if (!culprit.log.empty()) out += fmt::format("  its output: {}\n", culprit.log);
  const bool is_on_terminal = culprit.shown == StderrShown::kDirectly;
  const std::string_view traceback = is_on_terminal ? "" : whole_traceback(culprit);
  const bool has_lines = has_last_lines(culprit);
  const bool is_in_lines = has_lines && traceback_begin(culprit.last_lines) != std::string::npos;
  if (has_lines) out += "  its last lines on stderr:\n" + indented(culprit.last_lines, "    | ");
  if (!traceback.empty() && !is_in_lines) {
    out += "  its traceback:\n" + indented(trim(traceback), "    | ");
  } else if (!has_lines && culprit.message.empty() && !culprit.last_lines.empty()) {
    out += fmt::format("  its last line on stderr: {}\n", last_line(culprit.last_lines));
  }
  const bool is_silent = culprit.failure.start_error.empty() && culprit.failure.end.signal == 0 &&
                         culprit.message.empty() && traceback.empty() && culprit.last_lines.empty();
  if (is_silent && !is_on_terminal) out += "  it wrote nothing to stderr\n";
  out += about_python(report);
  out += fmt::format("  next: {}\n", what_happens_next(report.outcome, report.workers));
  return out;
}

const std::string& error_text(const FailureDetails& details) {
  if (!details.traceback.empty()) return details.traceback;
  return details.message.empty() ? details.last_lines : details.message;
}

std::string comparable_line(std::string_view text) {
  constexpr std::size_t kBytesMax = 200;
  std::string out;
  for (const std::string_view word : split(cause_line(text), ' ')) {
    if (word.find_first_of("0123456789") != std::string_view::npos) continue;
    if (!out.empty()) out += ' ';
    std::ranges::copy_if(
        word, std::back_inserter(out), [](char byte) { return byte > ' ' && byte <= '~'; });
  }
  out.resize(std::min(out.size(), kBytesMax));
  return out;
}

std::string missing_module(std::string_view text) {
  constexpr std::string_view kSaid = "No module named ";
  const std::string_view line = last_line(text);
  const std::size_t at = line.rfind(kSaid);
  if (at == std::string_view::npos) return {};
  std::string_view name = line.substr(at + kSaid.size());
  if (name.starts_with('\'')) name.remove_prefix(1);  // `python -m` prints no quotes
  name = name.substr(0, name.find_first_of(".'; "));
  return std::string(name.find_first_not_of(kNameLetters) == std::string_view::npos ? name : "");
}

std::vector<TextLine> last_output(const FailureReport& report) {
  const std::string written =
      last_lines_of(trim(error_text(report.culprit)), static_cast<int>(kFailureLinesMax));
  if (written.empty()) return {};
  std::vector<TextLine> lines;
  for (const auto line : split(written, '\n')) {
    lines.push_back({.text = std::string(line)});
  }
  return lines;
}

std::string failure_output(const std::string& host, const FailureText& failure) {
  std::string out = fmt::format("ddprun: last output of rank {} on {}:\n", failure.rank, host);
  for (const TextLine& line : failure.lines) {
    out += fmt::format("    | {}\n", line.text);
  }
  return out;
}

std::string stop_line(
    const std::string& title, const StopRound& order, const Outcome& outcome, int workers) {
  const std::string next = what_happens_next(outcome, workers);
  if (!order.culprit) {
    if (!order.restarts || outcome.stopped_by != 0) return "";
    return fmt::format(
        "ddprun: {}; next: restarting the workers once enough nodes have joined\n", order.why);
  }
  const FailureNews& culprit = *order.culprit;
  if (culprit.pid == 0) {
    return fmt::format(
        "ddprun: {} did not start on {}: {}; next: {}\n", title, culprit.host, culprit.how, next);
  }
  return fmt::format(
      "ddprun: {} failed on {}: rank {} (local rank {}, pid {}) {}; next: {}\n",
      title,
      culprit.host,
      culprit.rank,
      culprit.local_rank,
      culprit.pid,
      culprit.how,
      next);
}

}  // namespace ddprun
