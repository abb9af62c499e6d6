#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace ddprun {

/// The variables of an environment by name, as an argument of cores.
using Environment = std::map<std::string, std::string>;

/// The environment of this process, for shells.
Environment current_environment();

/// The same as execve takes it: NAME=VALUE, and any other entry. `settings` ("NAME=value") come
/// first and replace ours.
std::vector<std::string> environment_entries(std::vector<std::string> settings = {});

/// Whether this user may execute `path`.
bool is_program(const std::filesystem::path& path);

/// The first program on PATH with one of `names`; empty if there is none.
std::string find_on_path(const std::vector<std::string>& names, const Environment& environment);

/// gethostname(2); empty if it is not known.
std::string host_name();

}  // namespace ddprun
