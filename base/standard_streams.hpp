#pragma once

#include "base/error.hpp"

#include <string_view>

namespace ddprun {

/// Writes a few words of our own to descriptor 2, buffered by nobody. Where it is closed, full or
/// read by nobody, the words are lost: nothing is thrown, no SIGPIPE is raised, and a reader that
/// has stopped reading holds the caller up for two seconds at most.
void write_stderr(std::string_view text) noexcept;

/// Writes what a program was asked for to stdout. Unlike a remark, an answer that is lost is a
/// failure: kIo when stdout is closed or its disk is full.
Result<void> write_stdout(std::string_view text);

}  // namespace ddprun
