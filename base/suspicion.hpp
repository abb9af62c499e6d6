#pragma once

// Decides which of several failed workers is the cause of a round's failure: on each node its
// agent, and among nodes their leader.

#include "base/exit_status.hpp"
#include "base/worker_contract.hpp"

#include <csignal>
#include <cstdint>

namespace ddprun {

/// How likely a failed worker is the cause. A worker with a later value is never the cause if there
/// is one with an earlier value.
enum class Suspicion : std::uint8_t {
  kCause,     // could not be started, or ended by a signal that a lost peer does not cause
  kUnclear,   // it exited or aborted: on its own, or because a peer was gone
  kLostPeer,  // it exited with 75, as a worker does that lost a peer
};

constexpr Suspicion suspicion(const contract::WorkerEnd& worker) {
  if (worker.pid == 0) return Suspicion::kCause;
  if (worker.signal == 0) {
    return worker.exit_status == kExitTryAgain ? Suspicion::kLostPeer : Suspicion::kUnclear;
  }
  // A library's watchdog aborts, and a write to a closed connection may end by SIGPIPE.
  const bool may_follow = worker.signal == SIGABRT || worker.signal == SIGPIPE;
  return may_follow ? Suspicion::kUnclear : Suspicion::kCause;
}

}  // namespace ddprun
