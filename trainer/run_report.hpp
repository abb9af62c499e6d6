#pragma once

// All output of a run: lines for people on stdout, files for programs.

#include "base/error.hpp"
#include "trainer/core/line_style.hpp"
#include "trainer/core/progress_text.hpp"
#include "trainer/core/report_event.hpp"
#include "trainer/report_files.hpp"

namespace ddprun {

class RunReport {
 public:
  /// Rank 0 opens `files`; the other ranks only print their lines of the style. Fails with kIo or
  /// kNotFound for the metrics file.
  static Result<RunReport> open(const LineContext& lines, const ReportFileOptions& files);

  /// Prints and records `event`. Fails with kIo if it cannot be written to the metrics file, or if
  /// the last line, that of RunEnded, is lost; other lost lines are ignored.
  Result<void> record(const ReportEvent& event);

  /// The bar of the style: Mila's ImageNet example counts samples.
  BarStyle bar_style() const {
    return lines_.style == LineStyle::kMilaImagenet ? BarStyle::kSamples : BarStyle::kPlain;
  }

 private:
  RunReport(const LineContext& lines, ReportFiles files);

  LineContext lines_;
  ReportFiles files_;
};

}  // namespace ddprun
