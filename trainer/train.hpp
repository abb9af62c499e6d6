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
  kSaved,  // after a notice, at a step on which all ranks agreed, with its snapshot
};

/// Trains as one rank of `place` on `device`, reports, and returns when all epochs are done, or
/// after all ranks have received a notice. Collective: every rank of the world calls it with the
/// same options. `notice`: null if nothing could be saved.
///
/// Fails if a file cannot be used (kNotFound, kIo, kCorrupt), or with kPeerLost if the ranks cannot
/// connect. Throws torch's exceptions if a peer is lost or something is broken (see
/// classify_failure()).
Result<TrainEnd> train(
    const TrainOptions& options, const WorkerPlace& place, Device& device, NoticeWatch* notice);

}  // namespace ddprun
