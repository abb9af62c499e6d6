#pragma once

#include "rendezvous/core/messages.hpp"
#include "rendezvous/core/policy.hpp"

#include <cstdint>

namespace ddprun {

/// What never changes while this node leads; the parts of Coordinator share it.
struct LeaderContext {
  const RendezvousPolicy& policy;  // outlives it
  NodeInfo self;                   // may be a later incarnation than the one in `policy`
  Instance instance;
  std::int64_t term = 0;

  bool is_self(Incarnation node) const { return node == self.incarnation; }
};

}  // namespace ddprun
