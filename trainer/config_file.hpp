#pragma once

#include "base/error.hpp"

#include <string>
#include <vector>

namespace ddprun {

/// `arguments` with `--config FILE` replaced by the flags in FILE, put in front, so that the
/// command line takes precedence. An underscore in a flag's name counts as a hyphen, and a
/// flag that may stand alone gets its value (complete_bare_flags()).
///
/// FILE is YAML: one mapping of flags without their hyphens to values; `true` is a flag
/// without a value, `false` one that is left out, and a list is a flag given several times.
/// Fails with kNotFound, kIo or kInvalidArgument, naming the file, the line and what is
/// wrong.
Result<std::vector<std::string>> with_config(const std::vector<std::string>& arguments);

}  // namespace ddprun
