#pragma once

#include "base/error.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace ddprun {

/// Splits a line into arguments as a POSIX shell does: blanks separate arguments, quotes and
/// backslashes join them. Expands nothing; no other character is special. Fails with
/// kInvalidArgument if a quote is not closed or the line ends with a backslash.
Result<std::vector<std::string>> split_arguments(std::string_view line);

}  // namespace ddprun
