#pragma once

// What a leader costs and how fast it is: real connections of simulated agents
// (rendezvous_fleet.hpp) to a real leader in a process of its own (bench_leader.hpp).

#include "base/error.hpp"

namespace ddprun {

struct RendezvousBenchOptions {
  int agents = 64;      // beside the leader's own
  int repeats = 5;      // of a failure, and of the loss of an agent
  double steady_s = 5;  // of heartbeats alone
  int workers = 0;      // whose Gloo start-up the leader's store serves beside heartbeats; 0: none
  bool json = false;
};

/// Runs it and prints what it took. Fails with kIo, kPeerLost or kTimedOut.
Result<void> bench_rendezvous(const RendezvousBenchOptions& options);

}  // namespace ddprun
