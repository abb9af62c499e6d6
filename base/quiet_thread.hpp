#pragma once

#include "base/error.hpp"

#include <string_view>
#include <system_error>
#include <thread>
#include <utility>

#include <signal.h>  // NOLINT(modernize-deprecated-headers): sigfillset and pthread_sigmask are POSIX

namespace ddprun {

/// While it lives, this thread, and any thread that it starts, gets no signal except those of its
/// own crash: if these were blocked, they would end the process without a handler.
class SignalsBlocked {
 public:
  SignalsBlocked() {
    sigset_t all;
    ::sigfillset(&all);
    for (const int fatal : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT}) {
      ::sigdelset(&all, fatal);
    }
    ::pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~SignalsBlocked() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;

 private:
  sigset_t before_{};
};

/// Runs `body` in `thread`, which takes no signals: those of the process are for the agent's
/// thread. Fails with kIo, saying that `what` cannot be done, if the kernel allows no more threads.
template <class Body>
Result<void> start_quiet_thread(std::thread& thread, std::string_view what, Body body) {
  const SignalsBlocked blocked;  // inherited by the new thread
  try {
    thread = std::thread(std::move(body));
  } catch (const std::system_error& thrown) {
    return make_process_error(thrown.code().value(), what);
  }
  return {};
}

}  // namespace ddprun
