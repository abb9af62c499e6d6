#pragma once

// From "train.py" to the program that is executed.

#include "agent/core/launch_plan.hpp"
#include "base/error.hpp"
#include "launcher/flags/core/options.hpp"

#include <filesystem>
#include <string>
#include <vector>

namespace ddprun {

/// Inputs of the search for the program.
struct CommandContext {
  const Environment& environment;
  std::filesystem::path own_directory;  // of the running ddprun
};

/// Finds the interpreter or program and checks that it can be run, before anything is started.
///
/// Python is $PYTHON_EXEC, else the Python of the environment (venv or conda) whose bin holds
/// ddprun, else the first python or python3 on PATH. A script that is an ELF file, or whose first
/// line names another interpreter, runs as it is. So does a bare name that is not a file here but a
/// program on PATH. A name that contains "${local_rank}" keeps it, and is checked for every rank.
/// The program of --wrap is resolved as well. Fails with kNotFound or kNotExecutable, and says what
/// to do.
Result<WorkerCommand> resolve_command(const Options& options, const CommandContext& context);

/// A program and its arguments, with the program as it is to be executed: a name without a slash is
/// looked up on PATH. Empty if `arguments` is empty. Fails with kNotFound or kNotExecutable.
Result<std::vector<std::string>> resolve_program(
    std::vector<std::string> arguments, const Environment& environment);

}  // namespace ddprun
