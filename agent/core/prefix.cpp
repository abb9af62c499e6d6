#include "agent/core/prefix.hpp"

#include "base/parse.hpp"

#include <algorithm>
#include <map>

namespace ddprun {
namespace {

/// Calls `use` for each state of `line` before a carriage return.
template <class Use>
void for_each_step(std::string_view line, Use& use) {
  bool is_empty = true;
  for (const std::string_view step : split(line, '\r')) {
    if (step.empty()) continue;
    use(step);
    is_empty = false;
  }
  if (is_empty) use(std::string_view());
}

/// Calls `use` for each line, without its newline.
template <class Use>
void for_each_line(std::string_view lines, Use&& use) {
  const bool has_steps = lines.find('\r') != std::string_view::npos;
  while (!lines.empty()) {
    const std::size_t newline = lines.find('\n');
    const std::string_view line = lines.substr(0, newline);
    has_steps ? for_each_step(line, use) : use(line);
    if (newline == std::string_view::npos) return;
    lines.remove_prefix(newline + 1);
  }
}

/// Removes the rest of a line that was appended before from the front of `lines`. Returns whether
/// that line has ended, or continues with text.
bool take_line_end(std::string_view& lines) {
  const std::size_t text = std::min(lines.find_first_not_of('\r'), lines.size());
  if (text == lines.size()) {
    lines = {};
    return false;
  }
  if (lines[text] == '\n') lines.remove_prefix(text + 1);
  return true;
}

struct Placeholder {
  std::string_view name;  // "$" for "$$"
  std::size_t size = 0;   // of all of it; 0: there is none
};

/// A variable at the start of `text`: "${name}", "$name" or "$$".
Placeholder placeholder_of(std::string_view text) {
  constexpr char kLetters[] = "_abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
  if (!text.starts_with('$')) return {};
  text.remove_prefix(1);
  if (text.starts_with('$')) return {.name = text.substr(0, 1), .size = 2};
  const bool has_braces = text.starts_with('{');
  if (has_braces) text.remove_prefix(1);
  const std::string_view name = text.substr(0, text.find_first_not_of(kLetters));
  if (!has_braces) return {.name = name, .size = name.size() + 1};
  if (!text.substr(name.size()).starts_with('}')) return {};
  return {.name = name, .size = name.size() + 3};
}

void append_line(std::string_view prefix, std::string_view line, std::string& out) {
  out.append(prefix);
  out.append(line);
  out.push_back('\n');
}

}  // namespace

std::string expand(std::string_view text, const std::map<std::string_view, std::string>& names) {
  std::string expanded;
  while (!text.empty()) {
    const auto [name, size] = placeholder_of(text);
    const auto found = names.find(name);
    const bool is_known = size != 0 && found != names.end();
    expanded += is_known ? found->second : text.substr(0, 1);
    text.remove_prefix(is_known ? size : 1);
  }
  return expanded;
}

std::string expand_prefix(std::string_view text, const PrefixValues& values) {
  return expand(
      text,
      {{"$", "$"},
       {"role_name", std::string(values.role)},
       {"rank", std::to_string(values.rank)},
       {"local_rank", std::to_string(values.local_rank)},
       {"hostname", std::string(values.host)}});
}

std::size_t append_prefixed(
    std::string_view lines, std::string_view prefix, std::string& out, bool& is_open) {
  if (is_open && take_line_end(lines)) is_open = false;
  if (lines.empty()) return 0;
  const std::string_view unfinished = lines.substr(lines.rfind('\n') + 1);
  is_open = unfinished.find_first_not_of('\r') != std::string_view::npos;
  if (!is_open) lines.remove_suffix(unfinished.size());  // a carriage return alone shows nothing
  std::size_t count = 0;
  for_each_line(lines, [&](std::string_view line) {
    append_line(prefix, line, out);
    ++count;
  });
  return count;
}

void append_matching(
    std::string_view lines,
    std::string_view prefix,
    std::span<const std::string> texts,
    std::string& out) {
  for_each_line(lines, [&](std::string_view line) {
    const auto is_in = [line](const std::string& text) {
      return line.find(text) != std::string_view::npos;
    };
    if (std::ranges::any_of(texts, is_in)) append_line(prefix, line, out);
  });
}

}  // namespace ddprun
