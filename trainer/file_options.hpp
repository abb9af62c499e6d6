#pragma once

// Which files a run begins with, and which it leaves behind.

#include "base/error.hpp"
#include "trainer/core/options.hpp"

namespace ddprun {

struct RawOptions;

/// Fills in what `options` says of weights to begin with, of a snapshot to go on from, of files for
/// other programs and of the best of them, as `raw` has it; model and snapshot directory are filled
/// in already. Looks whether a file to begin with is there. Fails with kInvalidArgument, with a
/// remedy.
Result<void> read_files(TrainOptions& options, const RawOptions& raw);

}  // namespace ddprun
