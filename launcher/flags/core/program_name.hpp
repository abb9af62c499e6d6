#pragma once

// By what the nodes of a job know that they run the same.

#include "launcher/flags/core/options.hpp"

#include <string>

namespace ddprun {

/// What is run, the same on all nodes of a job though directories and interpreters may differ: the
/// file name of the script or program, or "-m MODULE". With --no-python the script that Python or a
/// shell is given ("python3 x/train.py", "bash train.sh"); "python -c" and "sh -c" for a text.
/// REQUIRES: options.rest is not empty.
std::string program_name(const Options& options);

/// Script and arguments as they were typed, for people. REQUIRES: the same.
std::string command_text(const Options& options);

}  // namespace ddprun
