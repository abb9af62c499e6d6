#pragma once

#include <string>
#include <string_view>

namespace ddprun {

/// The first 40 bytes of a text from outside, fit for a message of one line: whatever is no
/// printable ASCII becomes '?', and "..." stands for the rest.
std::string excerpt(std::string_view text);

}  // namespace ddprun
