#pragma once

// What people are told of the nodes of a job, and while a leader gathers them for a round.

#include "base/time.hpp"
#include "rendezvous/core/messages.hpp"
#include "rendezvous/core/policy.hpp"

#include <cstddef>
#include <string>
#include <vector>

namespace ddprun {

struct GatheringFacts {
  const RendezvousPolicy& policy;
  std::vector<const NodeInfo*> here;  // in the order of their incarnations
  int ready = 0;                      // of these, how many could start a round
  std::string missing;                // hosts of the last round that are not here: "n1 and n2"
  std::string endpoint;               // where newcomers call
};

/// "node0 (10.0.0.1:29400)"; without the address if it is not known.
std::string named(const NodeInfo& node);

/// "2 of 4 nodes", "2 of 2 to 4 nodes, 1 spare": how many of MIN to MAX have joined, without the
/// spares.
std::string nodes_text(std::ptrdiff_t joined, int min, int max, std::ptrdiff_t spares = 0);

/// Who is here, and which node ranks are missing.
std::string attendance(const GatheringFacts& facts);

/// Still fewer than MIN: who is waited for, where and how long.
std::string waiting_text(const GatheringFacts& facts, Duration waited, Duration left);

/// MIN nodes are here, more may come for as long as `left`.
std::string last_call_text(const GatheringFacts& facts, Duration left);

/// Why the job ends: fewer than MIN came within `timeout`.
std::string timed_out_text(const GatheringFacts& facts, Duration timeout);

/// Why the job ends: fewer than MIN are left, and no more can come.
std::string too_few_left_text(const GatheringFacts& facts);

}  // namespace ddprun
