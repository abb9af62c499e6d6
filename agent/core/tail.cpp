#include "agent/core/tail.hpp"

#include "agent/core/traceback.hpp"

#include <algorithm>

namespace ddprun {
namespace {

/// What a terminal shows of a line that was overwritten: a progress bar's last step.
std::string_view as_shown(std::string_view line) {
  while (line.ends_with('\r'))
    line.remove_suffix(1);
  return line.substr(line.rfind('\r') + 1);
}

}  // namespace

void Tail::append(std::string_view bytes) {
  if (bytes.size() > kTailBytes) bytes.remove_prefix(bytes.size() - kTailBytes);
  // The front is removed only each second time that the size of the ring has arrived, so that a
  // byte is moved at most once.
  if (text_.size() + bytes.size() > 2 * kTailBytes) text_.erase(0, text_.size() - kTailBytes);
  text_.append(bytes);
}

std::string last_lines_of(std::string_view text, int lines_max) {
  if (text.ends_with('\n')) text.remove_suffix(1);
  std::size_t begin = text.size();
  for (int line = 0; line < lines_max && begin != 0; ++line) {
    // `begin` is at the start of a line, or at the end of the text; search to the left of the
    // newline before it.
    const std::size_t from = line == 0 ? begin : begin - 1;
    const std::size_t newline = from == 0 ? std::string_view::npos : text.rfind('\n', from - 1);
    begin = newline == std::string_view::npos ? 0 : newline + 1;
  }
  text.remove_prefix(begin);

  std::string lines;
  while (!text.empty()) {
    const std::size_t newline = text.find('\n');
    const std::string_view line = as_shown(text.substr(0, newline));
    lines.append(line.substr(0, kReportLineBytesMax));
    if (line.size() > kReportLineBytesMax) lines.append("…");
    if (newline == std::string_view::npos) break;
    lines.push_back('\n');
    text.remove_prefix(newline + 1);
  }
  return lines;
}

std::string failure_lines_of(std::string_view text, int lines_max) {
  const std::size_t begin = traceback_begin(text);
  if (begin == std::string_view::npos) return last_lines_of(text, lines_max);
  std::string_view from_there = text.substr(begin);
  if (from_there.ends_with('\n')) from_there.remove_suffix(1);
  const auto lines = 1 + std::ranges::count(from_there, '\n');
  if (lines > kTracebackLinesMax) return last_lines_of(text, lines_max);
  return last_lines_of(text, std::max(lines_max, static_cast<int>(lines)));
}

}  // namespace ddprun
