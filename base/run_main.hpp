#pragma once

#include <exception>
#include <string_view>

namespace ddprun {

/// Reports `thrown`, which nobody expected, and yields the exit status of `program`: kExitTryAgain
/// if memory ran out, else kExitDefect. Not through the log, which may not have been started.
/// Allocates nothing.
int report_unexpected(std::string_view program, const std::exception& thrown) noexcept;

/// From here on, an exception that cannot be caught ends the process as report_unexpected() says,
/// and not by SIGABRT: where nothing may be thrown, as in std::filesystem's functions with an error
/// code, memory may run out.
void report_uncaught_exceptions() noexcept;

/// Runs `body`; yields the exit status of `program`. An exception that leaves `body` is a bug in
/// ddprun, or means that memory ran out.
int run_main(std::string_view program, const auto& body) {
  try {
    return body();
  } catch (const std::exception& thrown) {
    return report_unexpected(program, thrown);
  }
}

}  // namespace ddprun
