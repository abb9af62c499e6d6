#pragma once

// The report of failed workers: torchrun's block, for tools and readers that know it, and a
// paragraph with who failed, how, where the output is, and what happens next. On other nodes it is
// one line.

#include "agent/core/worker_failure.hpp"
#include "base/time.hpp"
#include "rendezvous/core/messages.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun {

/// Whether a reader of the report has already seen what the worker wrote to stderr.
enum class StderrShown : std::uint8_t {
  kNo,
  kPassedOn,  // through ddprun, so that `last_lines` are known
  kDirectly,  // to a terminal, for example; ddprun does not know what was written
};

/// One worker in a report, with what the shell found out about it.
struct FailureDetails {
  WorkerFailure failure;
  int rank = 0;
  std::string wall_time;   // "2030-01-31_12:00:00"
  std::string error_file;  // its path, if the worker wrote one
  std::string message;     // from the error file
  std::string traceback;   // from the error file
  std::string last_lines;  // of its stderr; empty if ddprun cannot read it
  StderrShown shown = StderrShown::kNo;
  std::string log;  // where its output is; empty if nowhere
};

/// What follows a failure.
struct Outcome {
  bool restarts = false;  // the next attempt is about to begin
  int restarts_used = 0;  // that one included
  int restarts_max = 0;
  bool has_started = true;     // the worker that failed; else `exit_status` is not its own
  bool can_be_retried = true;  // false: the program cannot be executed, so no restart would help
  int exit_status = 0;         // what ddprun ends with, unless it restarts
  int stopped_by = 0;          // the signal that ended the job meanwhile; 0: none
  int crashes = 0;             // attempts in a row that crashed on start (crash_loop.hpp)
  bool repeats = false;        // the last two ended with the same failure
  bool is_undecided = false;   // ddprun ends before it is known what follows
  Duration pause{};            // before the next attempt
};

/// A failed import, as far as the worker's last lines show it.
struct FailedImport {
  std::string module;                  // "torch"
  std::vector<std::string> elsewhere;  // interpreters that have it
};

struct FailureReport {
  std::string title;   // the program: "train.py"
  std::string python;  // the Python that ran it; empty: none
  std::string host;
  int workers = 1;  // of all nodes
  int attempt = 0;
  Duration ran_for{};  // from the attempt's start to the culprit's end
  Outcome outcome;
  FailureDetails culprit;                     // the first in time
  std::optional<FailedImport> failed_import;  // of the culprit
  std::vector<FailureDetails> others;         // in order of time
};

/// At most this many of `others` are shown, so that a report does not grow with the world.
inline constexpr int kOthersShownMax = 8;

/// The block between two rules; ends with a newline. A traceback is in the paragraph.
std::string failure_block(const FailureReport& report);

/// The paragraph, with the whole traceback of the culprit as far as this node knows it, unless the
/// worker wrote it to the same terminal; ends with a newline.
std::string failure_paragraph(const FailureReport& report);

/// A worker's traceback, else its message, else the last lines of its stderr, as far as this node
/// knows them.
const std::string& error_text(const FailureDetails& details);

/// The exception of the last Python traceback in `text`, else its last line, without words that
/// differ between two failures at the same place: those with a digit (numbers, addresses, temporary
/// names). Printable ASCII, at most 200 bytes.
std::string comparable_line(std::string_view text);

/// The package that an import failed for, from the last lines of a worker: "torch" for
/// "ModuleNotFoundError: No module named 'torch.nn'". Empty if there is no such line.
std::string missing_module(std::string_view text);

/// The last kFailureLinesMax lines of the culprit's output, for the console of another node.
std::vector<TextLine> last_output(const FailureReport& report);

/// The leader's text for these lines; ends with a newline.
std::string failure_output(const std::string& host, const FailureText& failure);

/// The line of a node on which nothing failed, for a round that was stopped; ends with a newline.
/// Empty if the report of the job's end, which follows, has it all.
std::string stop_line(
    const std::string& title, const StopRound& order, const Outcome& outcome, int workers);

}  // namespace ddprun
