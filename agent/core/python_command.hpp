#pragma once

// What a command line gives to the Python interpreter itself.

#include "agent/core/launch_plan.hpp"

#include <optional>

namespace ddprun {

/// How many of the arguments are the interpreter's own options, before the script, `-m` or `-c`;
/// none: the program is no Python, or what it runs is not a file, a module or a text.
std::optional<int> interpreter_options(const WorkerCommand& command);

}  // namespace ddprun
