#pragma once

#include "base/error.hpp"
#include "trainer/core/ddp_options.hpp"
#include "trainer/core/worker_place.hpp"

#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include <chrono>
#include <vector>

namespace ddprun {

using ProcessGroup = c10::intrusive_ptr<c10d::ProcessGroup>;

/// How long ranks wait for each other to start, regardless of the timeout of collectives: a node
/// may still be copying its data.
inline constexpr std::chrono::hours kStartTimeout{1};

/// Connects this worker with its peers: a Gloo group over the store at MASTER_ADDR:MASTER_PORT, as
/// a client of it, or, if no agent hosts one, with rank 0 as the host. A world of 1 needs no store.
///
/// It lives as long as this process, so that peers do not lose a failing rank before it has
/// reported why.
///
/// Blocks until all peers have joined; rank 0 prints which ranks are missing. Fails with kPeerLost
/// if one does not join within kStartTimeout, if no port is free for our store, or if no rank 0 is
/// found at the candidate ports. Throws torch's exceptions if the store or a peer does not respond
/// (see classify_failure()); so do its collectives if a peer is late by more than `timeout`.
Result<ProcessGroup> make_process_group(
    const WorkerPlace& place, std::chrono::milliseconds timeout = kPeerTimeout);

/// The ranks that keep the others waiting, found by a rank whose collective has timed out before it
/// ends: it writes to the store that it waits, gives the others some seconds to do the same, and
/// yields those that do not. Empty if all of them wait, or the store does not respond.
std::vector<int> ranks_that_keep_others_waiting();

}  // namespace ddprun
