#pragma once

// ddprun's own log lines, on stderr: one line per transition, fixed fields first, then a sentence.
// Quiet by default (a healthy run prints nothing). LOGLEVEL as under torchrun, default WARNING.

#include "base/error.hpp"

#include <spdlog/spdlog.h>

#include <string_view>

namespace ddprun {

/// "HH:MM:SS.mmm program LEVEL text"; the level is coloured by a sink that can.
inline constexpr char kLogPattern[] = "%H:%M:%S.%e %n %^%l%$ %v";

/// Sends spdlog's default logger to stderr in the form of kLogPattern, coloured only on a terminal.
/// `level` is DEBUG, INFO, WARNING, ERROR or CRITICAL in any case; empty means WARNING.
/// Fails with kInvalidArgument on any other word.
Result<void> start_log(std::string_view program, std::string_view level);

}  // namespace ddprun
