#include "agent/core/traceback.hpp"

#include "base/parse.hpp"

#include <algorithm>
#include <array>
#include <ranges>
#include <vector>

namespace ddprun {
namespace {

constexpr std::string_view kTraceback = "Traceback (most recent call last):";

bool is_traceback(std::string_view line) {
  return line.ends_with(kTraceback);
}

/// Python's words between the traceback of an exception and that of one that followed from it.
bool links_to_earlier(std::string_view line) {
  constexpr std::array<std::string_view, 2> kLinks = {
      "The above exception was the direct cause of the following exception:",
      "During handling of the above exception, another exception occurred:"};
  return std::ranges::any_of(
      kLinks, [line](std::string_view link) { return line.ends_with(link); });
}

/// Whether the traceback at `line` belongs to what stands above it.
bool continues(const std::vector<std::string_view>& lines, std::size_t line) {
  if (lines[line].ends_with("Original Traceback (most recent call last):")) return true;
  while (line > 0) {
    const std::string_view above = trim(lines[--line]);
    if (links_to_earlier(above)) return true;
    // Blank, but for torch's prefix.
    if (!above.empty() && !(above.starts_with("[rank") && above.ends_with(':'))) return false;
  }
  return false;
}

}  // namespace

std::size_t traceback_begin(std::string_view text) {
  const auto lines = split(text, '\n');
  std::size_t line = lines.size();
  bool is_whole = false;
  while (line > 0 && !is_whole) {
    --line;
    is_whole = is_traceback(lines[line]) && !continues(lines, line);
  }
  if (!is_whole) return std::string_view::npos;
  return static_cast<std::size_t>(lines[line].data() - text.data());
}

std::string_view cause_line(std::string_view text) {
  const auto lines = split(trim(text), '\n');
  const auto from_end = std::ranges::find_if(lines.rbegin(), lines.rend(), is_traceback);
  if (from_end == lines.rend()) return trim(lines.back());
  const std::string_view prefix = from_end->substr(0, from_end->size() - kTraceback.size());
  for (auto line = from_end.base(); line != lines.end(); ++line) {
    const bool is_of_call = !line->starts_with(prefix) || line->substr(prefix.size()).empty() ||
                            (*line)[prefix.size()] == ' ';
    if (!is_of_call) return *line;
  }
  return trim(lines.back());
}

}  // namespace ddprun
