#pragma once

// Slurm's own programs, called after the workers have ended: a slow controller delays nothing then.

#include "base/error.hpp"

#include <string>
#include <vector>

namespace ddprun {

/// What `program`, looked up on PATH, prints on stdout. Takes at most 10 s. Fails with kNotFound if
/// the program or Slurm's configuration is missing, with kTimedOut, and with kIo and its output if
/// its status is not 0.
///
/// REQUIRES: called on the main thread, when no worker of the job runs any more.
Result<std::string> call_slurm(const std::string& program, std::vector<std::string> arguments);

}  // namespace ddprun
