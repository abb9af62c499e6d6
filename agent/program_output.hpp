#pragma once

// Another program that is asked something, and has so long to say it.

#include "agent/core/process_end.hpp"
#include "agent/process.hpp"
#include "base/error.hpp"
#include "base/time.hpp"

#include <cstddef>
#include <cstdint>
#include <string>

namespace ddprun {

enum class OutputOf : std::uint8_t { kStdout, kStdoutAndStderr };

struct ProgramOutput {
  std::string text;
  ProcessEnd end;
};

/// What `request` prints on stdout, or on stdout and stderr; its `out` and `err` are set here.
/// Fails as spawn() does; with kTimedOut, or with kLimit behind `bytes_max` bytes, it and all of
/// its process group are killed.
///
/// REQUIRES: called on the main thread, while nobody else there waits for children.
Result<ProgramOutput> run_and_capture(
    SpawnRequest request, OutputOf streams, TimePoint deadline, std::size_t bytes_max);

}  // namespace ddprun
