#pragma once

// Slurm's own programs, asked once the job's part here is over: an agent has nothing left to do
// then that a slow controller could hold up.

#include "base/error.hpp"

#include <string>
#include <vector>

namespace ddprun {

/// What `program`, looked up in PATH, says on both streams. Takes at most 10 s. Fails with
/// kNotFound where the program or Slurm's configuration is not there, with kTimedOut, and with kIo
/// and its words where its status is not 0.
///
/// REQUIRES: called on the main thread, when no worker of the job runs any more.
Result<std::string> ask_slurm(const std::string& program, std::vector<std::string> arguments);

}  // namespace ddprun
