#pragma once

// Errors with a formatted detail. Apart from error.hpp, so that not every source reads fmt.

#include "base/error.hpp"

#include <fmt/format.h>

#include <utility>

namespace ddprun {

/// make_error() with a detail as by fmt::format().
template <class... Args>
Error format_error(Errc code, fmt::format_string<Args...> detail, Args&&... arguments) {
  return make_error(code, fmt::format(detail, std::forward<Args>(arguments)...));
}

/// kInvalidArgument: the value, why it is refused, and what to give instead.
template <class... Args>
Error invalid_argument(fmt::format_string<Args...> detail, Args&&... arguments) {
  return format_error(Errc::kInvalidArgument, detail, std::forward<Args>(arguments)...);
}

}  // namespace ddprun
