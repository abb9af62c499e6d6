#pragma once

// What a shell needs to know to complete ddprun's command line.

#include <string>
#include <string_view>

namespace ddprun {

/// A script to be read by `shell`, "bash" or "zsh": options up to the script, the values of those
/// that have a few, file names for the rest.
std::string completion_script(std::string_view shell);

}  // namespace ddprun
