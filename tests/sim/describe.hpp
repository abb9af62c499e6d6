#pragma once

// Messages between agents as a person reads them in a trace or a log.

#include "rendezvous/core/messages.hpp"

#include <functional>
#include <string>

namespace ddprun::sim {

using NameOf = std::function<std::string(Incarnation)>;

/// "term 1 round 2"; "no round".
std::string describe(RoundId round);

/// "StartRound term 1 round 2". Of each message what decides; empty for heartbeats, their replies
/// and confirmations. `name_of` gives a node's name.
std::string describe(const Message& message, const NameOf& name_of);

}  // namespace ddprun::sim
