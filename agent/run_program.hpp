#pragma once

// Other programs that ddprun and ddpctl call: Slurm's, git, Python.

#include "agent/core/process_end.hpp"
#include "agent/process.hpp"
#include "base/error.hpp"
#include "base/time.hpp"

#include <cstddef>
#include <string>
#include <vector>

namespace ddprun {

/// How a program ended, and what it printed.
struct ProgramEnd {
  ProcessEnd end;
  std::string out;
  std::string err;
};

/// `command` with our environment, where `settings` ("NAME=value") replace our variables.
SpawnRequest request_for(std::vector<std::string> command, std::vector<std::string> settings = {});

/// Runs a program until it ends, with nothing to read. It is looked up on our PATH unless its name
/// has a slash. `in`, `out` and `err` of `request` are set here. Processes that the program leaves
/// behind are not waited for. Fails with kNotFound, or as spawn() does. At `deadline`, and after
/// more than `bytes_max` bytes of output, kills its process group and fails with kTimedOut or
/// kLimit.
///
/// REQUIRES: called on the main thread, and nothing else waits for this child.
Result<ProgramEnd> run_program(SpawnRequest request, TimePoint deadline, std::size_t bytes_max);

/// The same in the foreground: with our streams, in our session, for as long as it takes.
Result<ProcessEnd> run_in_foreground(SpawnRequest request);

}  // namespace ddprun
