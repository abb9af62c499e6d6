#pragma once

// A training state of ours, made of what a Python program has saved: the way back from
// python_checkpoint.hpp. Which keys count, and what each program means by its epoch, is in
// docs/snapshots.md.

#include "base/error.hpp"
#include "trainer/core/python_value.hpp"
#include "trainer/core/snapshot.hpp"
#include "trainer/core/state_dict.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace ddprun {

/// What a person knows of a file, and it does not tell.
struct ImportWishes {
  std::optional<std::int64_t> epoch = std::nullopt;  // the one to go on with
  std::optional<std::int64_t> step = std::nullopt;   // updates so far
  bool weights_only = false;                         // leave the optimizer's state where it is
};

/// A state, and what a person should know of it.
struct ImportedState {
  SnapshotState state;  // of one rank; points into the file, and into `numbers`
  std::vector<std::vector<std::byte>> numbers;
  std::vector<std::string> notes;  // what the file lacks, one clause each
};

/// Makes a state of `root`, all of a file of torch.save(), and the `weights` in it; `source` is how
/// messages and arguments call it. Fails with kCorrupt, naming the tensor or the key, with the
/// remedy: a tensor of another type than float32 or int64, an optimizer's state of another model or
/// of several groups, a position that the file does not tell.
Result<ImportedState> import_checkpoint(
    const PyValue& root,
    const StateDict& weights,
    const std::string& source,
    const ImportWishes& wishes);

}  // namespace ddprun
