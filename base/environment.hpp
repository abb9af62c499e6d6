#pragma once

#include <map>
#include <string>

namespace ddprun {

/// The variables of an environment by name, as a value that cores take for an argument.
using Environment = std::map<std::string, std::string>;

/// That of this process, for shells.
Environment current_environment();

}  // namespace ddprun
