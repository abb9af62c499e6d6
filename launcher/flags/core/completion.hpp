#pragma once

// Completion of ddprun's command line in a shell.

#include <string>
#include <string_view>

namespace ddprun {

/// A completion script for `shell`, "bash" or "zsh": completes options up to the script, the values
/// of flags that take one of a few fixed values, and file names everywhere else.
std::string completion_script(std::string_view shell);

}  // namespace ddprun
