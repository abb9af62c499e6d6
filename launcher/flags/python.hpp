#pragma once

// Which Python runs a script, and where programs are.

#include "base/environment.hpp"
#include "base/error.hpp"

#include <filesystem>
#include <string>

namespace ddprun {

/// Where the program that runs lies; empty if /proc is not there.
std::filesystem::path own_directory();

/// Whether this user may run it.
bool is_program(const std::filesystem::path& path);

/// The first program `name` on PATH; empty if there is none.
std::string find_on_path(const std::string& name, const Environment& environment);

/// $PYTHON_EXEC, else the Python of the environment (venv or conda) whose bin is `own_directory`,
/// else the first python or python3 on PATH. Fails with kNotFound or kNotExecutable, naming the
/// remedy.
Result<std::string> find_python(
    const Environment& environment, const std::filesystem::path& own_directory);

}  // namespace ddprun
