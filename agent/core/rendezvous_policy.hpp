#pragma once

#include "agent/core/launch_plan.hpp"
#include "base/endpoint.hpp"
#include "rendezvous/core/policy.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace ddprun {

/// What this node and this launch of it are, beside what was asked for.
struct OwnNode {
  std::string host;
  std::uint64_t chance = 0;  // another one in each launch: who it is, and the dice of its pauses
  bool bootstraps = true;    // it has bound the endpoint
  bool hosts_if_called = false;  // the same, as yet without knowing that the endpoint leads here
  bool took_part = false;        // as in RendezvousPolicy
  std::string cannot_host;       // as in RendezvousPolicy
  std::string cannot_listen;     // at the endpoint, which is this node's and may have another agent
  bool meets_by_name = false;    // a name service says where the endpoint is
  Endpoint listens;              // where others reach it; host "": where its calls come from
  Endpoint master;               // where its workers meet if it leads; host "": where it is reached
  std::int64_t started_ms = 0;   // since 1970, by its own clock
  Machine machine;               // as far as it is known
  std::vector<Endpoint> survivors;  // as in RendezvousPolicy
};

/// How this node takes part.
RendezvousPolicy rendezvous_policy(const LaunchPlan& plan, const OwnNode& own);

}  // namespace ddprun
