#pragma once

// Python environments nearby, for a job whose own Python lacks a module.

#include "base/environment.hpp"

#include <filesystem>
#include <string>
#include <vector>

namespace ddprun {

/// The interpreters that have `module`, judging by the files of their environments; starts none.
/// Searches VIRTUAL_ENV, CONDA_PREFIX, PATH, the folders venv, .venv and env in `directory` and the
/// two above it, and the environments of the conda that CONDA_EXE names. In that order, each
/// environment once, without `interpreter`.
std::vector<std::string> interpreters_with(
    const std::string& module,
    const std::string& interpreter,
    const std::filesystem::path& directory,
    const Environment& environment);

}  // namespace ddprun
