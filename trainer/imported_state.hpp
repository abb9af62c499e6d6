#pragma once

// What is asked of a snapshot that a file of Python's was made into, and of no other: ddprun's
// tools know neither model nor optimizer, so it is here that they meet the file.

#include "base/error.hpp"
#include "trainer/core/snapshot.hpp"
#include "trainer/model.hpp"
#include "trainer/optimizer.hpp"

namespace ddprun {

/// Fails with kCorrupt, naming the tensor, unless all of the file's are the model's; and unless
/// Python's numbers of the parameters, by which it knows an optimizer's state, mean the same here.
Result<void> check_imported(const SnapshotState& state, const Model& model);

/// Overwrites the optimizer's state. A parameter that has none in the file begins as with its first
/// step. Fails with kCorrupt, naming the tensor, where the optimizer keeps no such one, or one of
/// another shape.
Result<void> fill_imported(const SnapshotState& state, Optimizer& optimizer);

}  // namespace ddprun
