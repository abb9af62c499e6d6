#include "trainer/run_report.hpp"

#include "base/standard_streams.hpp"

#include <chrono>
#include <string>
#include <utility>

namespace ddprun {
namespace {

/// Wall-clock time, for comparison of records with other logs.
double wall_s() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

}  // namespace

Result<RunReport> RunReport::open(const LineContext& lines, const ReportFileOptions& files) {
  auto opened = ReportFiles::open(lines.rank == 0 ? files : ReportFileOptions(), wall_s());
  if (!opened) return opened.error();
  return RunReport(lines, *std::move(opened));
}

RunReport::RunReport(const LineContext& lines, ReportFiles files)
    : lines_(lines), files_(std::move(files)) {}

Result<void> RunReport::record(const ReportEvent& event) {
  auto written = files_.write(event, wall_s());
  std::string text;
  for (const std::string& line : lines_of(event, lines_)) {
    text += line + "\n";
  }
  if (text.empty()) return written;
  const auto printed = write_stdout(text);
  const bool is_last = std::holds_alternative<RunEnded>(event);
  if (!written || printed || !is_last) return written;
  return with_context("training is done, but its last line was not printed", printed.error());
}

}  // namespace ddprun
