#pragma once

// `ddpctl snapshot ls | verify | inspect | diff | export | import`: looks at what ddptrain has
// saved, hands it on to Python, and takes up what Python has saved. Nothing here claims or changes
// a directory of snapshots, so that a job may go on saving; import makes a new one.

#include "base/error.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <variant>

namespace ddprun {

struct ListSnapshots {
  std::string directory;
  bool json = false;
};

struct VerifySnapshots {
  std::string path;  // of a snapshot, or of a directory of them
};

struct InspectSnapshot {
  std::string path;   // of a snapshot, or of a directory: the newest one there
  bool best = false;  // the best one there
  bool json = false;
};

struct DiffSnapshots {
  std::string left;  // as above, or a file of weights
  std::string right;
};

struct ExportSnapshot {
  std::string path;  // as above
  bool best = false;
  std::string to;  // *.safetensors, or anything else for torch.load()
  bool weights_only = false;
  std::string prefix;  // before the names of weights; empty unless weights_only
};

struct ImportSnapshot {
  std::string path;                   // of a file of torch.save() or safetensors
  std::string to;                     // a directory without snapshots, made when it does not exist
  std::optional<std::int64_t> epoch;  // the one to go on with, where the file does not tell
  std::optional<std::int64_t> step;
  bool weights_only = false;
};

using SnapshotCommand = std::variant<
    ListSnapshots,
    VerifySnapshots,
    InspectSnapshot,
    DiffSnapshots,
    ExportSnapshot,
    ImportSnapshot>;

/// Prints the snapshots of a directory, the newest first, with what their manifests say. Whether
/// each file is there at its full size is looked at, its content is not.
Result<int> list_directory(const ListSnapshots& options);

/// Reads every byte and prints a line for each file. Yields kExitRefused where one is damaged.
Result<int> verify_snapshots(const VerifySnapshots& options);

/// Prints all that is in a snapshot but the numbers in its tensors.
Result<int> inspect_snapshot(const InspectSnapshot& options);

/// Prints where two snapshots, or two files of weights, differ. Yields kExitRefused if they do.
Result<int> diff_snapshots(const DiffSnapshots& options);

/// Writes a file for Python: `model`, `optimizer`, `epoch` and `step`, or the weights alone.
Result<int> export_snapshot(const ExportSnapshot& options);

/// Makes a snapshot of a file of Python's in a directory of its own, from which ddptrain goes on.
/// Fails with kCorrupt where the file is none that it can be, with kInvalidArgument where the
/// directory has snapshots.
Result<int> import_snapshot(const ImportSnapshot& options);

/// Does what the command says; yields the exit status. All fail with kNotFound or kIo, and with
/// kCorrupt where a snapshot that is needed whole is damaged.
Result<int> run_snapshot(const SnapshotCommand& command);

}  // namespace ddprun
