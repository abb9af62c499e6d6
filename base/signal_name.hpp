#pragma once

#include <string>

namespace ddprun {

/// "SIGTERM"; "signal 64" for a signal without a name.
std::string signal_name(int signal);

}  // namespace ddprun
