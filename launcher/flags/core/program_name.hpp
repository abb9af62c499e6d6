#pragma once

// How the nodes of a job know that they run the same program.

#include "launcher/flags/core/options.hpp"

#include <string>

namespace ddprun {

/// The program, named so that it is the same on all nodes though directories and interpreters may
/// differ: the file name of the script or program, or "-m MODULE". With --no-python, the script
/// that Python or a shell is given ("python3 x/train.py", "bash train.sh"); "python -c" or "sh -c"
/// for an inline program. REQUIRES: options.rest is not empty.
std::string program_name(const Options& options);

/// Script and arguments as typed, for messages. REQUIRES: options.rest is not empty.
std::string command_text(const Options& options);

}  // namespace ddprun
