#pragma once

// What ddprun writes about itself, on stderr. Log lines (spdlog::info and the like) are for those
// who look into it: one line per transition, fixed fields first, then a sentence; quiet by default.
// Reports are for the user, who gets all of them. spdlog carries both, in the order of the calls.
// What must not take a lock, or is no line, calls write_stderr() (base/standard_streams.hpp).

#include "base/error.hpp"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <functional>
#include <string>
#include <string_view>
#include <utility>

namespace ddprun {

/// Log lines are "HH:MM:SS.mmm program LEVEL text", the level coloured on a terminal. `level` is
/// DEBUG, INFO, WARNING, ERROR or CRITICAL in any case; empty means WARNING, as under torchrun.
/// Fails with kInvalidArgument on any other word; reports work nevertheless.
Result<void> start_log(std::string_view program, std::string_view level);

/// Passes log lines and reports to `write`, in whole lines, and one call at a time for each of the
/// two; empty: to write_stderr(), as start_log() does. REQUIRES: start_log() was called.
void log_to(const std::function<void(std::string_view)>& write);

/// Reports what was composed whole, newlines included, in one piece. Empty: nothing.
/// REQUIRES: start_log() was called.
void report_lines(std::string_view lines);

/// Reports one line: "program: text". REQUIRES: start_log() was called.
template <class... Args>
void report(fmt::format_string<Args...> format, Args&&... args) {
  const std::string text = fmt::format(format, std::forward<Args>(args)...);
  report_lines(fmt::format("{}: {}\n", spdlog::default_logger_raw()->name(), text));
}

}  // namespace ddprun
