#pragma once

// Makes a training state from a file of a Python program: the inverse of
// python_checkpoint.hpp. docs/snapshots.md lists the keys that are read, and what each program
// means by its epoch.

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

/// What a person knows about a file that does not contain it.
struct ImportWishes {
  std::optional<std::int64_t> epoch = std::nullopt;  // to resume with
  std::optional<std::int64_t> step = std::nullopt;   // updates so far
  bool weights_only = false;                         // leave out the optimizer's state
};

/// A state, and notes about it for a person.
struct ImportedState {
  SnapshotState state;  // of one rank; points into the file, and into `numbers`
  std::vector<std::vector<std::byte>> numbers;
  std::vector<std::string> notes;  // what the file lacks, one clause each
};

/// Makes a state from `root`, the content of a file of torch.save(), and the `weights` in it;
/// messages and arguments refer to the file as `source`. Fails with kCorrupt, naming the tensor or
/// the key, with the remedy: a tensor of a type other than float32 or int64, an optimizer's state
/// of another model or of several groups, a position that is not in the file.
Result<ImportedState> import_checkpoint(
    const PyValue& root,
    const StateDict& weights,
    const std::string& source,
    const ImportWishes& wishes);

}  // namespace ddprun
