#pragma once

#include "agent/core/failure_report.hpp"
#include "agent/streams.hpp"
#include "base/time.hpp"

#include <span>
#include <string>
#include <vector>

namespace ddprun {

struct ToldFailure {
  std::string text;                   // for this node's console
  std::vector<TextLine> last_output;  // for another node's console
};

/// The whole text of a failure, with the workers' last lines and error files: the paragraph, and
/// the block before it unless the job restarts. `last_lines` are the culprit's, then those of the
/// other workers that are shown. Copies the culprit's error file, with the exit code added, to
/// `pass_up_to` (our own TORCHELASTIC_ERROR_FILE) unless that is empty.
///
/// Reads and writes files: call it on the journal's thread.
ToldFailure report_failure(
    FailureReport report, std::span<const LastLines> last_lines, const std::string& pass_up_to);

/// The last line of a worker's output (comparable_line). Call it on the journal's thread.
std::string read_last_line(FailureDetails details, const LastLines& last_lines);

/// `at` as local time: "2030-01-31_12:00:00".
std::string wall_time(TimePoint at);

}  // namespace ddprun
