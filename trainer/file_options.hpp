#pragma once

// The files that a run starts from, and those that it writes.

#include "base/error.hpp"
#include "trainer/core/options.hpp"

namespace ddprun {

struct RawOptions;

/// Fills in `options` from `raw`: initial weights, a snapshot to resume from, files for
/// other programs and the best of them. Model and snapshot directory must already be
/// filled in. Checks that a file to start from exists. Fails with kInvalidArgument and a
/// remedy.
Result<void> read_files(TrainOptions& options, const RawOptions& raw);

}  // namespace ddprun
