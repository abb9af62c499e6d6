#pragma once

#include <string>
#include <string_view>

namespace ddprun {

/// The first 40 bytes of an external text, safe for a one-line message: bytes that are not
/// printable ASCII become '?', and "..." stands for the rest.
std::string excerpt(std::string_view text);

}  // namespace ddprun
