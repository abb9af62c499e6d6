#pragma once

#include <map>
#include <string>
#include <vector>

namespace ddprun {

/// The variables of an environment by name, as an argument of cores.
using Environment = std::map<std::string, std::string>;

/// The environment of this process, for shells.
Environment current_environment();

/// The same in the form of execve: NAME=VALUE, and any other entries.
std::vector<std::string> environment_entries();

/// gethostname(2); empty if it is not known.
std::string host_name();

}  // namespace ddprun
