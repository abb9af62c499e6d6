#pragma once

#include "base/exit_status.hpp"
#include "base/standard_streams.hpp"

#include <fmt/format.h>

#include <exception>
#include <string_view>

namespace ddprun {

/// Runs `body`; yields the exit status of `program`. An exception that leaves `body` is a bug in
/// ddprun: it is reported, and the status is kExitDefect. Not through the log, which may not have
/// been started.
int run_main(std::string_view program, const auto& body) {
  try {
    return body();
  } catch (const std::exception& defect) {
    write_stderr(fmt::format("{}: internal error, please report it: {}\n", program, defect.what()));
    return kExitDefect;
  }
}

}  // namespace ddprun
