#pragma once

// One run: a cluster, at least ten faults in sixty seconds, then quiet. The seed decides
// everything, here and in the cluster's random numbers, so a seed replays.

#include "tests/sim/cluster.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace ddprun::sim {

struct Outcome {
  std::vector<std::string> violations;  // empty: every rule held
  std::vector<std::string> log;         // if it was asked for
  std::uint64_t events = 0;
  int rounds = 0;
  std::int64_t terms = 0;
  int succeeded = 0;  // agents that ended with 0
  int gave_up = 0;    // with 75
};

Outcome run_schedule(std::uint64_t seed, bool keeps_log = false);

}  // namespace ddprun::sim
