#pragma once

// Which of several workers that ended badly is the cause of what befell their round. On each node
// by its agent, and among nodes by their leader.

#include "base/exit_status.hpp"
#include "base/worker_contract.hpp"

#include <csignal>
#include <cstdint>

namespace ddprun {

/// How far a worker that ended badly may be the cause: a later one never is while an earlier one is
/// there.
enum class Suspicion : std::uint8_t {
  kCause,     // it was not started, or a signal ended it that nobody sends for want of a peer
  kUnclear,   // it exited or aborted: of its own accord, or because a peer was gone
  kLostPeer,  // it exited with 75, as one does that lost a peer
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
