#pragma once

#include <string>
#include <string_view>

namespace ddprun {

/// "SIGTERM"; "signal 64" for a signal without a name.
std::string signal_name(int signal);

/// "SIGTERM" → 15; 0 for an unknown name.
int signal_number(std::string_view name);

}  // namespace ddprun
