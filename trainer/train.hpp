#pragma once

#include "base/error.hpp"
#include "trainer/core/options.hpp"
#include "trainer/core/worker_place.hpp"

namespace ddprun {

/// Trains as one rank of `place`, reports, and returns when all epochs are done. Collective: every
/// rank of the world calls it with the same options.
///
/// Fails when a file given to it cannot be used: kNotFound, kIo, kCorrupt. Throws what torch throws
/// when a peer is lost or something is broken (see classify_failure()).
Result<void> train(const TrainOptions& options, const WorkerPlace& place);

}  // namespace ddprun
