#pragma once

#include "base/time.hpp"
#include "rendezvous/core/messages.hpp"
#include "rendezvous/core/quorum.hpp"

#include <map>
#include <vector>

namespace ddprun {

/// What a node keeps of its leadership when that ends.
struct PastLeadership {
  struct Node {
    NodeInfo info;
    TimePoint heard_at;
  };
  std::map<Incarnation, Node> nodes;      // that were with it
  std::vector<Incarnation> dead;          // of these, proved dead too late to be subtracted
  std::vector<KnownVoterSet> voter_sets;  // less those proved dead in time
  TimePoint granted_until;                // what it granted may be in use until then
  TimePoint over_for_all_at;  // by then no node takes a proof of its death for one in time (E6)
};

}  // namespace ddprun
