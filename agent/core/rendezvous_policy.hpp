#pragma once

#include "agent/core/launch_plan.hpp"
#include "base/endpoint.hpp"
#include "rendezvous/core/policy.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace ddprun {

/// Facts about this node and this launch, besides the plan.
struct OwnNode {
  std::string host;
  std::uint64_t chance = 0;  // random for each launch: the incarnation, and the seed of its pauses
  bool bootstraps = true;    // it has bound the endpoint
  bool hosts_if_called = false;  // the same, if the endpoint turns out to lead here
  bool took_part = false;        // as in RendezvousPolicy
  std::string cannot_host;       // as in RendezvousPolicy
  std::string cannot_listen;     // why it cannot listen at its endpoint, where another agent may
  bool meets_by_name = false;    // the endpoint is given by a name
  Endpoint listens;  // where others reach it; host "": the source address of its connections
  Endpoint master;   // the store of its workers if it leads; host "": the address that others use
  std::int64_t started_ms = 0;      // since 1970, by its own clock
  Machine machine;                  // as far as known
  std::vector<Endpoint> survivors;  // as in RendezvousPolicy
};

/// The policy of this node.
RendezvousPolicy rendezvous_policy(const LaunchPlan& plan, const OwnNode& own);

}  // namespace ddprun
