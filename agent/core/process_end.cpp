#include "agent/core/process_end.hpp"

#include "base/exit_status.hpp"
#include "base/signal_name.hpp"

#include <fmt/format.h>

namespace ddprun {

int ProcessEnd::exit_status() const {
  return signal != 0 ? exit_status_of_signal(signal) : code;
}

std::string ProcessEnd::to_string() const {
  if (signal == 0) return fmt::format("exited with status {}", code);
  const char* const why = out_of_memory ? ", by the kernel: out of memory"
                          : hung        ? ", by ddprun: it hung"
                                        : "";
  return fmt::format("was ended by signal {} ({}{})", signal, signal_name(signal), why);
}

}  // namespace ddprun
