#include "agent/core/failure_report.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>

namespace ddprun {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;

FailureDetails failed(int rank, ProcessEnd end, bool stopped_by_us = false) {
  FailureDetails details;
  details.failure.local_rank = rank;
  details.failure.pid = 4700 + rank;
  details.failure.end = end;
  details.failure.stopped_by_us = stopped_by_us;
  details.rank = rank;
  details.wall_time = "2030-01-31_12:00:00";
  return details;
}

FailureReport report_of(FailureDetails culprit, std::vector<FailureDetails> others) {
  FailureReport report;
  report.title = "train.py";
  report.host = "node1";
  report.workers = 2;
  report.ran_for = 12'340ms;
  report.outcome.exit_status = culprit.failure.end.exit_status();
  report.culprit = std::move(culprit);
  report.others = std::move(others);
  return report;
}

TEST(FailureReport, IsTorchrunsBlock) {
  const auto report = report_of(
      failed(0, {.code = 85, .signal = 0}), {failed(1, {.code = 0, .signal = SIGTERM}, true)});
  EXPECT_EQ(
      failure_block(report),
      "======================================================\n"
      "train.py FAILED\n"
      "------------------------------------------------------\n"
      "Failures:\n"
      "[1]:\n"
      "  time      : 2030-01-31_12:00:00\n"
      "  host      : node1\n"
      "  rank      : 1 (local_rank: 1)\n"
      "  exitcode  : -15 (pid: 4701) (stopped by ddprun)\n"
      "  error_file: <N/A>\n"
      "  traceback : Signal 15 (SIGTERM) received by PID 4701\n"
      "------------------------------------------------------\n"
      "Root Cause (first observed failure):\n"
      "[0]:\n"
      "  time      : 2030-01-31_12:00:00\n"
      "  host      : node1\n"
      "  rank      : 0 (local_rank: 0)\n"
      "  exitcode  : 85 (pid: 4700)\n"
      "  error_file: <N/A>\n"
      "  traceback : <N/A>\n"
      "======================================================\n");
}

TEST(FailureReport, ShowsPythonsTracebackIndented) {
  auto culprit = failed(0, {.code = 1, .signal = 0});
  culprit.error_file = "/logs/error.json";
  culprit.message = "ValueError: boom";
  culprit.traceback = "Traceback (most recent call last):\n  at 3\nValueError: boom";
  const auto block = failure_block(report_of(culprit, {}));
  EXPECT_THAT(block, HasSubstr("  <NO_OTHER_FAILURES>\n"));
  EXPECT_THAT(block, HasSubstr("  error_file: /logs/error.json\n"));
  EXPECT_THAT(block, HasSubstr("  traceback : ValueError: boom (its traceback is below)\n"));
  EXPECT_THAT(
      failure_paragraph(report_of(culprit, {})),
      HasSubstr("  its traceback:\n"
                "    | Traceback (most recent call last):\n"
                "    |   at 3\n"
                "    | ValueError: boom\n"));
}

/// A worker that raised under torch's @record, and whose stderr was `shown`.
FailureReport raised(StderrShown shown, const std::string& last_lines) {
  auto culprit = failed(0, {.code = 1, .signal = 0});
  culprit.message = "ValueError: boom";
  culprit.traceback = "Traceback (most recent call last):\n  at 3\nValueError: boom";
  culprit.last_lines = last_lines;
  culprit.shown = shown;
  return report_of(culprit, {});
}

constexpr char kWritten[] = "Traceback (most recent call last):\n  at 3\nValueError: boom\nbye";

TEST(FailureReport, HasTheWholeTracebackOnceWhereverItWasSeen) {
  for (const auto& report :
       {raised(StderrShown::kPassedOn, kWritten),
        raised(StderrShown::kNo, kWritten),
        raised(StderrShown::kNo, "loading"),
        raised(StderrShown::kNo, "")}) {
    const std::string paragraph = failure_paragraph(report);
    const std::string whole =
        "    | Traceback (most recent call last):\n    |   at 3\n    | ValueError: boom\n";
    const std::size_t at = paragraph.find(whole);
    ASSERT_NE(at, std::string::npos) << paragraph;
    EXPECT_EQ(paragraph.find("Traceback (most", at + whole.size()), std::string::npos);
    EXPECT_THAT(
        failure_block(report),
        HasSubstr("traceback : ValueError: boom (its traceback is below)\n"));
    EXPECT_THAT(paragraph, HasSubstr("  it said: ValueError: boom\n"));
  }
}

TEST(FailureReport, DoesNotRepeatATracebackOnTheTerminalThatHasIt) {
  const auto report = raised(StderrShown::kDirectly, "");
  EXPECT_THAT(failure_paragraph(report), Not(HasSubstr("Traceback (most")));
  EXPECT_THAT(
      failure_block(report), HasSubstr("traceback : ValueError: boom (its traceback is above)\n"));
}

TEST(FailureReport, NeedsNoErrorFileForThat) {
  auto report = report_of(failed(0, {.code = 1, .signal = 0}), {});
  report.culprit.shown = StderrShown::kPassedOn;
  report.culprit.last_lines = std::string("loading\n") + kWritten;
  EXPECT_THAT(
      failure_paragraph(report),
      HasSubstr("  its traceback:\n"
                "    | Traceback (most recent call last):\n"
                "    |   at 3\n"
                "    | ValueError: boom\n"
                "    | bye\n"));
  EXPECT_THAT(
      failure_block(report), HasSubstr("traceback : ValueError: boom (its traceback is below)\n"));
}

TEST(FailureReport, NamesTheLastLineThatThisConsoleHasHad) {
  auto report = report_of(failed(0, {.code = 1, .signal = 0}), {});
  report.culprit.shown = StderrShown::kPassedOn;
  report.culprit.last_lines = "loading\nbye";
  EXPECT_THAT(failure_paragraph(report), HasSubstr("\n  its last line on stderr: bye\n"));
  EXPECT_THAT(failure_paragraph(report), Not(HasSubstr("loading")));
}

TEST(FailureReport, SaysThatAWorkerExitedWithoutAWord) {
  auto report = report_of(failed(0, {.code = 3, .signal = 0}), {});
  EXPECT_THAT(failure_paragraph(report), HasSubstr("\n  it wrote nothing to stderr\n"));
  report.culprit.shown = StderrShown::kDirectly;  // nobody knows
  EXPECT_THAT(failure_paragraph(report), Not(HasSubstr("wrote nothing")));
}

TEST(FailureReport, DoesNotGrowWithTheWorld) {
  const std::vector<FailureDetails> others(63, failed(1, {.code = 1, .signal = 0}));
  const auto block = failure_block(report_of(failed(0, {.code = 1, .signal = 0}), others));
  EXPECT_THAT(block, HasSubstr("[8]:"));
  EXPECT_THAT(block, Not(HasSubstr("[9]:")));
  EXPECT_THAT(block, HasSubstr("  ... and 55 more\n"));
}

TEST(FailureReport, SaysWhoHowWhereAndWhatHappensNext) {
  auto report = report_of(failed(0, {.code = 0, .signal = SIGKILL}), {});
  report.culprit.log = "/logs/attempt_0/0/stderr.log";
  report.culprit.last_lines = "loading\nstep 3";
  report.outcome.restarts = true;
  report.outcome.restarts_used = 1;
  report.outcome.restarts_max = 3;
  EXPECT_EQ(
      failure_paragraph(report),
      "ddprun: train.py failed on node1: rank 0 (local rank 0, pid 4700) was ended by signal 9 "
      "(SIGKILL), 12.3 s into attempt 0\n"
      "  its output: /logs/attempt_0/0/stderr.log\n"
      "  its last lines on stderr:\n"
      "    | loading\n"
      "    | step 3\n"
      "  next: restarting all 2 workers (restart 1 of 3)\n");
}

TEST(FailureReport, SaysWhyThereIsNoRestart) {
  auto report = report_of(failed(0, {.code = 9, .signal = 0}), {});
  EXPECT_THAT(failure_paragraph(report), HasSubstr("--max-restarts would allow restarts"));
  report.outcome.restarts_max = 3;
  EXPECT_THAT(failure_paragraph(report), HasSubstr("the 3 restarts of --max-restarts are used up"));
  report.outcome.is_undecided = true;
  EXPECT_THAT(failure_paragraph(report), HasSubstr("ends before a restart was decided"));
  report.outcome.can_be_retried = false;
  EXPECT_THAT(failure_paragraph(report), HasSubstr("another try would end alike"));
  report.outcome.stopped_by = SIGINT;
  EXPECT_THAT(failure_paragraph(report), HasSubstr("told to stop by SIGINT"));
}

TEST(FailureReport, SaysOfARankThatLostAnotherThatTheCauseIsElsewhere) {
  auto culprit = failed(2, {.code = 75, .signal = 0});
  culprit.message = "rank 1 kept the others waiting";
  EXPECT_THAT(
      failure_paragraph(report_of(culprit, {})),
      HasSubstr("pid 4702) exited with status 75 (as one does that lost another rank), 12.3 s into "
                "attempt 0\n  it said: rank 1 kept the others waiting\n"));
}

TEST(FailureReport, SaysThatAProgramDidNotStart) {
  auto report = report_of(failed(0, {.code = 127, .signal = 0}), {});
  report.culprit.failure.start_error = "cannot run /no/such: No such file or directory";
  EXPECT_THAT(
      failure_paragraph(report),
      HasSubstr("train.py did not start on node1: cannot run /no/such: No such file"));
}

TEST(FailureReport, SaysWhichPythonLacksAModuleAndWhichHasIt) {
  auto report = report_of(failed(0, {.code = 1, .signal = 0}), {});
  report.python = "/usr/bin/python3";
  EXPECT_THAT(failure_paragraph(report), HasSubstr("  its Python: /usr/bin/python3\n"));
  report.failed_import = FailedImport{.module = "torch", .elsewhere = {}};
  EXPECT_THAT(
      failure_paragraph(report),
      HasSubstr("  its Python: /usr/bin/python3 has no module 'torch'; install it there, or set "
                "PYTHON_EXEC to a Python that has it\n"));
  report.failed_import->elsewhere = {"/a/bin/python", "/b/bin/python3"};
  EXPECT_THAT(
      failure_paragraph(report),
      HasSubstr("set PYTHON_EXEC to one that has it: /a/bin/python, /b/bin/python3\n"));
}

TEST(MissingModule, IsThePackageThatPythonNamesLast) {
  EXPECT_EQ(missing_module("  import x\nModuleNotFoundError: No module named 'torch'"), "torch");
  EXPECT_EQ(missing_module("ModuleNotFoundError: No module named 'torch.nn'\n"), "torch");
  EXPECT_EQ(missing_module("/usr/bin/python3: No module named torch"), "torch");
  EXPECT_EQ(missing_module("No module named 'torch'\nValueError: no"), "");
  EXPECT_EQ(missing_module("No module named '../../etc'"), "");
  EXPECT_EQ(missing_module(""), "");
}

TEST(LastOutput, IsTheTracebackElseTheMessageElseTheLastLines) {
  FailureReport report;
  EXPECT_THAT(last_output(report), IsEmpty());
  report.culprit.last_lines = "step 3\nkilled\n";
  EXPECT_THAT(last_output(report), ElementsAre(TextLine{"step 3"}, TextLine{"killed"}));
  report.culprit.message = "KeyError";
  EXPECT_THAT(last_output(report), ElementsAre(TextLine{"KeyError"}));
  report.culprit.traceback = "Traceback:\n  in main\n\nKeyError: 'x'\n";
  EXPECT_THAT(
      last_output(report),
      ElementsAre(
          TextLine{"Traceback:"}, TextLine{"  in main"}, TextLine{""}, TextLine{"KeyError: 'x'"}));
}

TEST(ComparableLine, IsTheLastLineWithoutWhatDiffersBetweenTwoTries) {
  EXPECT_EQ(comparable_line(""), "");
  EXPECT_EQ(comparable_line("Traceback\nKeyError: 'x'\n\n"), "KeyError: 'x'");
  EXPECT_EQ(
      comparable_line("[rank12]: no answer in 3.5 s from <object at 0x7f31aBc0> in /tmp/tmp4k_x"),
      "no answer in s from <object at in");
  EXPECT_EQ(comparable_line("caf\xC3\xA9 \x1B[mred"), "caf [mred");
  EXPECT_EQ(comparable_line(std::string(1'000, 'x')), std::string(200, 'x'));
}

TEST(ComparableLine, IsTheExceptionThoughSomethingWasWrittenAfterTheTraceback) {
  constexpr char kText[] =
      "warming up\n"
      "Traceback (most recent call last):\n"
      "  File \"a.py\", line 1, in <module>\n"
      "    import torhc\n"
      "KeyError: 'x'\n\n"
      "During handling of the above exception, another exception occurred:\n\n"
      "Traceback (most recent call last):\n"
      "  File \"a.py\", line 2, in <module>\n"
      "    raise RuntimeError('cannot open alpha')\n"
      "RuntimeError: cannot open alpha\n"
      "[W] resource tracker: leaked\n";
  EXPECT_EQ(comparable_line(kText), "RuntimeError: cannot open alpha");
  EXPECT_EQ(
      comparable_line("[rank0]: Traceback (most recent call last):\n"
                      "[rank0]:   File \"a.py\", line 1, in <module>\n"
                      "[rank0]: ValueError: no\n"
                      "bye\n"),
      "ValueError: no");
  // A group, or an unfinished traceback.
  EXPECT_EQ(
      comparable_line("  + Exception Group Traceback (most recent call last):\n  |   File\nend"),
      "end");
  EXPECT_EQ(comparable_line("Traceback (most recent call last):\n  File"), "File");
}

TEST(LastOutput, IsTheEndOfALongText) {
  FailureReport report;
  for (int line = 1; line <= 100; ++line)
    report.culprit.traceback += fmt::format("line {}\n", line);
  const auto lines = last_output(report);
  ASSERT_THAT(lines, SizeIs(kFailureLinesMax));
  EXPECT_EQ(lines.front().text, "line 61");
  EXPECT_EQ(lines.back().text, "line 100");
}

TEST(LastOutput, NamesRankAndNodeOnTheLeadersConsole) {
  EXPECT_EQ(
      failure_output("node2", {.round = {}, .rank = 5, .lines = {{"Traceback:"}, {"KeyError"}}}),
      "ddprun: last output of rank 5 on node2:\n"
      "    | Traceback:\n"
      "    | KeyError\n");
}

StopRound stopped_by_rank_5() {
  StopRound order;
  order.why = "rank 5 on node2 (local rank 1, pid 77) exited with status 3";
  order.culprit =
      FailureNews{.rank = 5, .local_rank = 1, .pid = 77, .host = "node2", .how = "exited with 3"};
  order.restarts = true;
  return order;
}

TEST(StopLine, NamesTheWorkerOfAnotherNodeAndWhatFollows) {
  const Outcome outcome{.restarts = true, .restarts_used = 1, .restarts_max = 3};
  EXPECT_EQ(
      stop_line("train.py", stopped_by_rank_5(), outcome, 8),
      "ddprun: train.py failed on node2: rank 5 (local rank 1, pid 77) exited with 3; next: "
      "restarting "
      "all 8 workers (restart 1 of 3)\n");
}

TEST(StopLine, SaysWhyARestartWaits) {
  const Outcome outcome{
      .restarts = true,
      .restarts_used = 4,
      .restarts_max = 5,
      .crashes = 4,
      .pause = std::chrono::seconds(4)};
  EXPECT_THAT(
      stop_line("train.py", stopped_by_rank_5(), outcome, 8),
      HasSubstr("next: restarting all 8 workers in 4 s (restart 4 of 5), since 4 attempts in "
                "a row failed soon after their start\n"));
}

TEST(StopLine, SaysThatARestartWillHardlyHelp) {
  const Outcome outcome{
      .restarts = true,
      .restarts_used = 2,
      .restarts_max = 5,
      .exit_status = 3,
      .crashes = 2,
      .repeats = true,
      .pause = std::chrono::seconds(1)};
  EXPECT_THAT(
      stop_line("train.py", stopped_by_rank_5(), outcome, 8),
      HasSubstr("in 1 s (restart 2 of 5), since 2 attempts in a row failed soon after their start; "
                "that is unlikely to help: the last two attempts ended alike, with status 3 before "
                "any worker had reached the store\n"));
}

TEST(StopLine, SaysThatNoRestartFollowsWithoutProgress) {
  const Outcome outcome{
      .restarts_used = 1, .restarts_max = 5, .exit_status = 3, .crashes = 2, .repeats = true};
  EXPECT_THAT(
      stop_line("train.py", stopped_by_rank_5(), outcome, 8),
      HasSubstr("next: nothing (--restart-policy progress), since the last two attempts ended "
                "alike, with status 3 before any worker had reached the store; ddprun ends with "
                "this worker's status, 3\n"));
}

TEST(StopLine, SaysWithWhatDdprunEndsWhereNoRestartIsLeft) {
  const Outcome outcome{.restarts = false, .exit_status = 3};
  EXPECT_THAT(
      stop_line("train.py", stopped_by_rank_5(), outcome, 8),
      HasSubstr("next: ddprun ends with this worker's status, 3"));
}

TEST(StopLine, HasNoStatusOfAWorkerThatDidNotStart) {
  const Outcome outcome{.has_started = false, .exit_status = 75};
  EXPECT_THAT(
      stop_line("train.py", stopped_by_rank_5(), outcome, 8),
      HasSubstr("next: ddprun ends with status 75"));
}

TEST(StopLine, TellsOfAWorkerThatDidNotStart) {
  StopRound order = stopped_by_rank_5();
  order.culprit->pid = 0;
  order.culprit->how = "cannot run /x: No such file or directory";
  EXPECT_THAT(
      stop_line("train.py", order, {}, 8),
      HasSubstr(
          "train.py did not start on node2: cannot run /x: No such file or directory; next:"));
}

TEST(StopLine, SaysWhyARoundEndsWithoutACulprit) {
  StopRound order;
  order.why = "node node2 is lost: nothing of it runs any more";
  order.restarts = true;
  EXPECT_EQ(
      stop_line("train.py", order, {}, 8),
      "ddprun: node node2 is lost: nothing of it runs any more; next: restarting the "
      "workers once enough nodes have joined\n");
}

TEST(StopLine, IsSilentOnANodeThatWasToldToLeave) {
  StopRound order;
  order.why = "node node1 leaves";
  order.restarts = true;
  EXPECT_EQ(stop_line("train.py", order, {.stopped_by = SIGTERM}, 8), "");
}

}  // namespace
}  // namespace ddprun
