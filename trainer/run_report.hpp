#pragma once

// All that a run says, from one place: lines for people on stdout, files for programs.

#include "base/error.hpp"
#include "trainer/core/line_style.hpp"
#include "trainer/core/progress_text.hpp"
#include "trainer/core/report_event.hpp"
#include "trainer/report_files.hpp"

namespace ddprun {

class RunReport {
 public:
  /// Rank 0 opens `files`; the others only print what the style has for them. Fails with kIo or
  /// kNotFound for the metrics file.
  static Result<RunReport> open(const LineContext& lines, const ReportFileOptions& files);

  /// Prints and records `event`. Fails with kIo where it cannot go into the metrics file, and where
  /// the last line, that of RunEnded, is lost; another line that is lost is no reason to end.
  Result<void> tell(const ReportEvent& event);

  /// Of the style: Mila's ImageNet example counts samples.
  BarStyle bar_style() const {
    return lines_.style == LineStyle::kMilaImagenet ? BarStyle::kSamples : BarStyle::kPlain;
  }

 private:
  RunReport(const LineContext& lines, ReportFiles files);

  LineContext lines_;
  ReportFiles files_;
};

}  // namespace ddprun
