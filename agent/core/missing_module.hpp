#pragma once

// "No module named 'torch'": which one it was, by what Python printed.

#include <string>
#include <string_view>

namespace ddprun {

/// The package that an import failed for, by the last words of a worker: "torch" for
/// "ModuleNotFoundError: No module named 'torch.nn'". Empty: they say nothing of the kind.
std::string missing_module(std::string_view text);

}  // namespace ddprun
