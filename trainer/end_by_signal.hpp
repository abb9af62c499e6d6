#pragma once

#include "base/exit_status.hpp"

#include <csignal>
#include <cstdlib>

#include <signal.h>  // NOLINT(modernize-deprecated-headers): pthread_sigmask is POSIX

namespace ddprun {

/// Ends this process by `signal`, whatever its handler or mask is, so that its parent sees that
/// signal. Safe within a signal handler.
[[noreturn]] inline void end_by_signal(int signal) {
  std::signal(signal, SIG_DFL);  // NOLINT(cert-err33-c): cannot fail for a signal that has come
  sigset_t only;
  ::sigemptyset(&only);
  ::sigaddset(&only, signal);
  ::pthread_sigmask(SIG_UNBLOCK, &only, nullptr);
  ::raise(signal);
  std::_Exit(exit_status_of_signal(signal));
}

}  // namespace ddprun
