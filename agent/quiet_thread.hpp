#pragma once

#include <thread>
#include <utility>

#include <pthread.h>
#include <signal.h>  // NOLINT(modernize-deprecated-headers): sigfillset and pthread_sigmask are POSIX

namespace ddprun {

/// Starts a thread that takes no signal: those of the process belong to the agent's thread, and a
/// SIGPIPE of a write in here must not end the agent.
template <class Body>
std::thread start_quiet_thread(Body body) {
  sigset_t all;
  sigset_t before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);  // inherited by the new thread
  std::thread thread(std::move(body));
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return thread;
}

}  // namespace ddprun
