#pragma once

// From "train.py" to what is executed.

#include "agent/core/launch_plan.hpp"
#include "base/error.hpp"
#include "launcher/flags/core/options.hpp"

#include <filesystem>
#include <string>
#include <vector>

namespace ddprun {

/// What says which program it is.
struct CommandContext {
  const Environment& environment;
  std::filesystem::path own_directory;  // of the ddprun that runs
};

/// Finds the interpreter or program and checks that it can be run, before anything is started.
///
/// Python is $PYTHON_EXEC, else that of the environment (venv or conda) in whose bin ddprun lies,
/// else the first python or python3 on PATH. A script that is an ELF file, or whose first line
/// names another interpreter, runs as it is; so does a bare name that is no file here but a program
/// on PATH. A name with "${local_rank}" in it keeps it, and is checked for every rank. The program
/// of --wrap is looked for as well. Fails with kNotFound or kNotExecutable, naming the remedy.
Result<WorkerCommand> resolve_command(const Options& options, const CommandContext& context);

/// A program and its arguments, the program as it is to be executed: a name without a slash is
/// looked for on PATH. Empty if `words` is. Fails with kNotFound or kNotExecutable.
Result<std::vector<std::string>> resolve_program(
    std::vector<std::string> arguments, const Environment& environment);

}  // namespace ddprun
