#pragma once

// The end of a stream, kept in memory for a failure report.

#include <cstddef>
#include <string>
#include <string_view>

namespace ddprun {

/// How much of a worker's stderr is kept, and the longest line of a report.
inline constexpr std::size_t kTailBytes = std::size_t{64} * 1024;
inline constexpr std::size_t kReportLineBytesMax = std::size_t{4} * 1024;

/// Keeps at least the last kTailBytes of what was appended, in at most twice that memory.
class Tail {
 public:
  void append(std::string_view bytes);

  std::string_view text() const { return text_; }

 private:
  std::string text_;
};

/// The last `lines_max` lines of `text`, each cut at kReportLineBytesMax with a trailing "…"; no
/// newline at the end. A line without a newline counts as one. Of a line with carriage returns,
/// what was written last.
std::string last_lines_of(std::string_view text, int lines_max);

/// The same, or more: from where the Python traceback begins (traceback_begin), if that is at most
/// kTracebackLinesMax lines before the end.
std::string failure_lines_of(std::string_view text, int lines_max);
inline constexpr int kTracebackLinesMax = 400;

}  // namespace ddprun
