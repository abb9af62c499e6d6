#pragma once

// At which addresses of its machine a node of several listens: those at which the others reach it,
// and no more, because whoever reaches the port may try what it can do there.

#include "agent/core/launch_plan.hpp"

#include <string>
#include <vector>

namespace ddprun {

/// Where to listen.
struct ListenAddresses {
  std::vector<std::string> hosts;  // numeric addresses of this machine; none: all of them
  /// If possible also at 127.0.0.1, for people and for agents of this machine.
  bool at_loopback = true;
  /// Why all, although nobody asked for that: a clause for people. Empty: it was asked for, or
  /// `hosts` are known.
  std::string why_all;
  /// Where the other nodes look for this one, if it listens at none of these addresses, as was
  /// asked for; empty: it does, or that is not known.
  std::vector<std::string> missed;
};

/// Where the node at the endpoint listens for nodes that do not know it yet. `ends` are the
/// addresses of this machine that packets from and to the endpoint's addresses have, as far as its
/// name could be resolved.
ListenAddresses at_endpoint(const RendezvousPlan& rendezvous, const std::vector<std::string>& ends);

/// Where any other node listens from the beginning. The others reach it from where it calls them:
/// it listens there as well, once it does.
ListenAddresses before_any_call(const RendezvousPlan& rendezvous);

/// Whether it listens at each address from which it calls.
bool follows_calls(const RendezvousPlan& rendezvous);

}  // namespace ddprun
