#pragma once

#include <map>
#include <string>
#include <vector>

namespace ddprun {

/// The variables of an environment by name, as a value that cores take for an argument.
using Environment = std::map<std::string, std::string>;

/// That of this process, for shells.
Environment current_environment();

/// The same as execve takes it: NAME=VALUE, and whatever else stands there.
std::vector<std::string> environment_entries();

/// gethostname(2); empty if it is not known.
std::string host_name();

}  // namespace ddprun
