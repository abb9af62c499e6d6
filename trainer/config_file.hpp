#pragma once

#include "base/error.hpp"

#include <string>
#include <vector>

namespace ddprun {

/// The command line `arguments`, with what a configuration file says in front, so that the command
/// line has the last word: `--config FILE` is replaced by the flags in FILE. An underscore in a
/// flag's name counts as a hyphen, and a flag that may stand alone has its value
/// (complete_bare_flags()).
///
/// FILE is YAML: one mapping of flags without their hyphens to values; `true` is a flag without a
/// value, `false` one that is left out, and a list is a flag given several times. Fails with
/// kNotFound, kIo or kInvalidArgument, naming the file, the line and what is wrong.
Result<std::vector<std::string>> with_config(const std::vector<std::string>& arguments);

}  // namespace ddprun
