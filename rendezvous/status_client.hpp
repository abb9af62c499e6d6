#pragma once

// Asks a job for its status over HTTP. Blocks, so not for the agent's loop.

#include "base/endpoint.hpp"
#include "base/error.hpp"
#include "base/time.hpp"
#include "rendezvous/core/auth_proof.hpp"
#include "rendezvous/core/status_proof.hpp"

#include <functional>
#include <string>

namespace ddprun {

/// The key that a challenge asks for; fails if it is not known here.
using FindMac = std::function<Result<Mac>(const StatusChallenge&)>;

/// With MUNGE as this user; fails if the challenge asks for a secret.
Result<Mac> mac_by_munge(const StatusChallenge& challenge);

/// The status, as to_json() writes it, of the job that has a node at `endpoint`. A node that does
/// not lead names the leader, which is asked then. One that wants a proof gets it. Fails as
/// find_mac does, as http_get() does, or with kPeerLost or kProtocol if no leader replies with a
/// status.
Result<std::string> fetch_status(Endpoint endpoint, TimePoint deadline, const FindMac& find_mac);

/// The id of the job that has a node at `endpoint`; empty if it is not told to this user. Fails as
/// http_get() does, or with kProtocol if another program, or a store without a job, replies.
Result<std::string> job_at(const Endpoint& endpoint, TimePoint deadline);

}  // namespace ddprun
