#pragma once

#include "base/error.hpp"

#include <string_view>

namespace ddprun {

/// For what cannot be reported (base/log.hpp), since it must not take a lock or is no line.
///
/// Writes a message to descriptor 2, unbuffered. If the descriptor is closed, full or has no
/// reader, the message is lost: nothing is thrown, no SIGPIPE is raised, and a reader that has
/// stopped reading delays the caller by at most two seconds.
void write_stderr(std::string_view text) noexcept;

/// Writes a program's output to stdout. Unlike a message on stderr, lost output is an error: kIo if
/// stdout is closed or its disk is full.
Result<void> write_stdout(std::string_view text);

}  // namespace ddprun
