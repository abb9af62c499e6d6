#include "agent/core/traceback.hpp"

#include "base/parse.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <vector>

namespace ddprun {
namespace {

constexpr std::string_view kTraceback = "Traceback (most recent call last):";
constexpr std::string_view kOriginal = "Original ";  // of a data loader's process, by torch

bool is_traceback(std::string_view line) {
  return line.ends_with(kTraceback);
}

std::string_view heading_prefix(std::string_view heading) {
  return heading.substr(0, heading.size() - kTraceback.size());
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
  if (heading_prefix(lines[line]).ends_with(kOriginal)) return true;
  while (line > 0) {
    const std::string_view above = trim(lines[--line]);
    if (links_to_earlier(above)) return true;
    // Blank, but for torch's prefix.
    if (!above.empty() && !(above.starts_with("[rank") && above.ends_with(':'))) return false;
  }
  return false;
}

/// Whether its outermost call is that of a program, as in no other thread.
bool is_of_main_thread(const std::vector<std::string_view>& lines, std::size_t traceback) {
  if (traceback + 1 == lines.size()) return false;
  const std::string_view outermost = lines[traceback + 1];
  return outermost.ends_with(", in <module>") || outermost.ends_with(", in _run_module_as_main");
}

/// Of the lines of one traceback: the first, with those of the exceptions that led to its own, and
/// the first of its own.
struct Place {
  std::size_t whole = 0;
  std::size_t own = 0;
};

/// The last of the main thread, whose exception has ended the process, else the last one.
std::optional<Place> find_traceback(const std::vector<std::string_view>& lines) {
  std::optional<Place> last;
  std::optional<Place> last_of_main;
  for (std::size_t line = 0; line < lines.size(); ++line) {
    if (!is_traceback(lines[line])) continue;
    const bool is_new = !last || !continues(lines, line);
    last = Place{.whole = is_new ? line : last->whole, .own = line};
    const bool is_main = is_of_main_thread(lines, line);
    if (is_main || (!is_new && last_of_main && last_of_main->whole == last->whole)) {
      last_of_main = last;
    }
  }
  return last_of_main ? last_of_main : last;
}

}  // namespace

std::size_t traceback_begin(std::string_view text) {
  const auto lines = split(text, '\n');
  const auto found = find_traceback(lines);
  if (!found) return std::string_view::npos;
  return static_cast<std::size_t>(lines[found->whole].data() - text.data());
}

std::string_view cause_line(std::string_view text) {
  const auto lines = split(trim(text), '\n');
  const auto found = find_traceback(lines);
  if (!found) return trim(lines.back());
  std::string_view prefix = heading_prefix(lines[found->own]);
  if (prefix.ends_with(kOriginal)) prefix.remove_suffix(kOriginal.size());
  for (std::size_t line = found->own + 1; line < lines.size(); ++line) {
    const bool is_of_call = !lines[line].starts_with(prefix) ||
                            lines[line].substr(prefix.size()).empty() ||
                            lines[line][prefix.size()] == ' ';
    if (!is_of_call) return lines[line];
  }
  return trim(lines.back());
}

}  // namespace ddprun
