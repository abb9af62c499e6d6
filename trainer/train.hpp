#pragma once

#include "base/error.hpp"
#include "trainer/core/options.hpp"
#include "trainer/core/worker_place.hpp"
#include "trainer/device.hpp"
#include "trainer/notice_watch.hpp"

#include <cstdint>

namespace ddprun {

/// How training ended.
enum class TrainEnd : std::uint8_t {
  kDone,   // all epochs, or the hours of a burn-in
  kSaved,  // by a notice, after a step on which all ranks agreed, with a snapshot of it
};

/// Trains as one rank of `place` on `device`, reports, and returns when all epochs are done, or
/// when all ranks have been told by a notice. Collective: every rank of the world calls it with the
/// same options. `notice`: null where nothing could be saved.
///
/// Fails when a file given to it cannot be used (kNotFound, kIo, kCorrupt), or with kPeerLost where
/// the ranks do not meet. Throws what torch throws when a peer is lost or something is broken (see
/// classify_failure()).
Result<TrainEnd> train(
    const TrainOptions& options, const WorkerPlace& place, Device& device, NoticeWatch* notice);

}  // namespace ddprun
