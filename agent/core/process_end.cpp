#include "agent/core/process_end.hpp"

#include "base/exit_status.hpp"

#include <fmt/format.h>

#include <cstring>

namespace ddprun {

int ProcessEnd::exit_status() const {
  return signal != 0 ? exit_status_of_signal(signal) : code;
}

std::string ProcessEnd::to_string() const {
  if (signal == 0) return fmt::format("exited with status {}", code);
  return fmt::format("was ended by signal {} ({})", signal, signal_name(signal));
}

std::string signal_name(int signal) {
  const char* name = ::sigabbrev_np(signal);
  return name == nullptr ? fmt::format("signal {}", signal) : fmt::format("SIG{}", name);
}

}  // namespace ddprun
