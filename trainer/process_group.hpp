#pragma once

#include "base/error.hpp"
#include "trainer/core/ddp_options.hpp"
#include "trainer/core/worker_place.hpp"

#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include <chrono>
#include <vector>

namespace ddprun {

using ProcessGroup = c10::intrusive_ptr<c10d::ProcessGroup>;

/// So long ranks wait for each other to begin, whatever the timeout of collectives is: the data of
/// one may still be on its way to its node.
inline constexpr std::chrono::hours kStartTimeout{1};

/// Joins this worker with its peers: a Gloo group over the store at MASTER_ADDR:MASTER_PORT, whose
/// client we are, or which rank 0 hosts where no agent does. Alone, a world of 1 needs no store.
///
/// It lives as long as this process, so that peers lose a rank that fails when it has said why.
///
/// Blocks until all peers have come; rank 0 says for whom it waits. Fails with kPeerLost where one
/// has not come within kStartTimeout, where there is no port for a store of ours, or no rank 0 at
/// the ports to look at; throws what torch throws when the store or a peer does not answer (see
/// classify_failure()), and so do its collectives where a peer keeps one waiting for longer than
/// `timeout`.
Result<ProcessGroup> make_process_group(
    const WorkerPlace& place, std::chrono::milliseconds timeout = kPeerTimeout);

/// Which ranks keep the others waiting, for a rank whose collective has timed out, before it ends:
/// it says in the store that it waits, gives the others some seconds to say the same, and names
/// those that do not. Empty where all say it, or nobody can be asked.
std::vector<int> ranks_that_keep_others_waiting();

}  // namespace ddprun
