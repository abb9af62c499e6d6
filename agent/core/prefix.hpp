#pragma once

// The prefix of a worker's lines on the console, the variables in it, and the filter for duplicated
// lines.

#include <cstddef>
#include <map>
#include <span>
#include <string>
#include <string_view>

namespace ddprun {

/// As torchrun's: "[default0]:text", without a blank.
inline constexpr char kDefaultPrefixTemplate[] = "[${role_name}${local_rank}]:";

struct PrefixValues {
  std::string_view role;
  int rank = 0;
  int local_rank = 0;
  std::string_view host;
};

/// `text` with ${name} and $name replaced by the value of each of `names`; anything else stays.
std::string expand(std::string_view text, const std::map<std::string_view, std::string>& names);

/// `text` with ${role_name}, ${rank}, ${local_rank} and ${hostname}, also without the braces,
/// replaced, and $$ by $; anything else stays. The same as Template.safe_substitute() of Python's
/// string module, which torchrun uses.
std::string expand_prefix(std::string_view text, const PrefixValues& values);

/// Appends each line of `lines` to `out`, preceded by `prefix`. A last line without a newline gets
/// one. A carriage return ends a line too, as under torchrun, so each step of a progress bar is a
/// line. Returns the number of lines.
///
/// `is_open`: the last call for this stream appended an unfinished line; this call updates it. If
/// only the newline of that line follows, it ends the line and does not count as one.
std::size_t append_prefixed(
    std::string_view lines, std::string_view prefix, std::string& out, bool& is_open);

/// As append_prefixed(), but only the lines that contain one of `texts`.
void append_matching(
    std::string_view lines,
    std::string_view prefix,
    std::span<const std::string> texts,
    std::string& out);

}  // namespace ddprun
