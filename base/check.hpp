#pragma once

// A bug in ddprun is not an error to be handled: it ends the process, also in release builds. If
// that process is an agent, the kernel ends its workers with it, and the next round continues.

namespace ddprun {

/// Prints the claim that does not hold and its location to stderr; ends the process with status 70.
[[noreturn]] void check_failed(const char* claim, const char* file, int line) noexcept;

}  // namespace ddprun

/// Ends the process with exit status 70 unless `claim` holds. Never compiled out.
#define DDPRUN_CHECK(claim) \
  ((claim) ? static_cast<void>(0) : ::ddprun::check_failed(#claim, __FILE__, __LINE__))
