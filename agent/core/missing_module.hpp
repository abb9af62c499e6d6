#pragma once

// Finds the module in Python's "No module named 'torch'".

#include <string>
#include <string_view>

namespace ddprun {

/// The package that an import failed for, from the last lines of a worker: "torch" for
/// "ModuleNotFoundError: No module named 'torch.nn'". Empty if there is no such line.
std::string missing_module(std::string_view text);

}  // namespace ddprun
