#pragma once

// Another program that is asked something, and has so long to say it.

#include "agent/core/process_end.hpp"
#include "agent/process.hpp"
#include "base/error.hpp"
#include "base/time.hpp"

#include <cstddef>
#include <string>

namespace ddprun {

struct ProgramAnswer {
  std::string text;
  ProcessEnd end;
};

/// What `request` prints on stdout, and, if `hears_errors`, on stderr with it; its `out` and `err`
/// are set here. Fails as spawn() does; with kTimedOut, or with kLimit behind `bytes_max` bytes,
/// it and all of its process group are killed.
///
/// REQUIRES: called on the main thread, while nobody else there waits for children.
Result<ProgramAnswer> ask_program(
    SpawnRequest request, bool hears_errors, TimePoint deadline, std::size_t bytes_max);

}  // namespace ddprun
