#pragma once

// Checks that only a snapshot imported from a Python file needs: `ddpctl snapshot import` knows
// neither model nor optimizer, so the file is compared with them here.

#include "base/error.hpp"
#include "trainer/core/snapshot.hpp"
#include "trainer/model.hpp"
#include "trainer/optimizer.hpp"

namespace ddprun {

/// Fails with kCorrupt, naming the tensor, unless the file has exactly the model's tensors, and
/// Python's parameter numbers, which index an optimizer's state, mean the same here.
Result<void> check_imported(const SnapshotState& state, const Model& model);

/// Overwrites the optimizer's state. A parameter without a state in the file begins as in its first
/// step. Fails with kCorrupt, naming the tensor, if the optimizer has no such tensor, or one of
/// another shape.
Result<void> fill_imported(const SnapshotState& state, Optimizer& optimizer);

}  // namespace ddprun
