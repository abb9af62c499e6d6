#pragma once

// Finds the Python that runs a script.

#include "base/environment.hpp"
#include "base/error.hpp"

#include <filesystem>
#include <string>

namespace ddprun {

/// The directory of the running program; empty if /proc is not mounted.
std::filesystem::path own_directory();

/// $PYTHON_EXEC, else the Python of the environment (venv or conda) whose bin is `own_directory`,
/// else the first python or python3 on PATH. Fails with kNotFound or kNotExecutable, and says what
/// to do.
Result<std::string> find_python(
    const Environment& environment, const std::filesystem::path& own_directory);

}  // namespace ddprun
