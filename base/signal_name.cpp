#include "base/signal_name.hpp"

#include <fmt/format.h>

#include <cstring>

namespace ddprun {

std::string signal_name(int signal) {
  const char* name = ::sigabbrev_np(signal);
  return name == nullptr ? fmt::format("signal {}", signal) : fmt::format("SIG{}", name);
}

}  // namespace ddprun
