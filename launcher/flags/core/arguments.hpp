#pragma once

#include "base/error.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace ddprun {

/// The words of a line as a POSIX shell splits them: blanks stand between words, quotes and
/// backslashes keep them in one. Nothing is expanded, and no character has another meaning. Fails
/// with kInvalidArgument where a quote has no end, or nothing follows a backslash.
Result<std::vector<std::string>> split_arguments(std::string_view line);

}  // namespace ddprun
