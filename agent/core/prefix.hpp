#pragma once

// What stands before a worker's lines on the console, and which lines are set aside.

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace ddprun {

/// Of torchrun: "[default0]:text", with no blank between.
inline constexpr char kDefaultPrefixTemplate[] = "[${role_name}${local_rank}]:";

struct PrefixValues {
  std::string_view role;
  int rank = 0;
  int local_rank = 0;
  std::string_view host;
};

/// `text` with ${role_name}, ${rank}, ${local_rank} and ${hostname}, also without the braces,
/// replaced, and $$ by $; anything else stays as it is. As Template.safe_substitute() of Python's
/// string, which torchrun uses.
std::string expand_prefix(std::string_view text, const PrefixValues& values);

/// Appends each line of `lines` to `out` with `prefix` before it. A last line without a newline
/// gets one. A carriage return ends a line too, as under torchrun, so each step of a progress bar
/// is one. Yields the number of lines.
///
/// `is_open`: the last call for this stream appended a line whose own newline had not come; so this
/// one sets it. If that newline is all that follows on the line, it is the line's end and no line.
std::size_t append_prefixed(
    std::string_view lines, std::string_view prefix, std::string& out, bool& is_open);

/// As append_prefixed(), but only the lines that contain one of `texts`.
void append_matching(
    std::string_view lines,
    std::string_view prefix,
    std::span<const std::string> texts,
    std::string& out);

}  // namespace ddprun
