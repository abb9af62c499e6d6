#pragma once

// Calls Slurm's programs after the job's part here is over: by then the agent has nothing left to
// do that a slow controller could delay.

#include "base/error.hpp"

#include <string>
#include <vector>

namespace ddprun {

/// The output of `program`, looked up on PATH, on both streams. Takes at most 10 s. Fails with
/// kNotFound if the program or Slurm's configuration does not exist, with kTimedOut, and with kIo
/// and the output if its status is not 0.
///
/// REQUIRES: called on the main thread, when no worker of the job runs any more.
Result<std::string> ask_slurm(const std::string& program, std::vector<std::string> arguments);

}  // namespace ddprun
