#pragma once

// `ddpctl snapshot ls | verify | inspect | diff | export`: looks at what ddptrain has saved, and
// hands it on to Python. Nothing here claims a directory or changes one, so a job may go on saving.

#include "base/error.hpp"

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
  std::string path;  // of a snapshot, or of a directory: the newest one there
  bool json = false;
};

struct DiffSnapshots {
  std::string left;  // as above, or a file of weights
  std::string right;
};

struct ExportSnapshot {
  std::string path;  // as above
  std::string to;    // *.safetensors, or anything else for torch.load()
  bool weights_only = false;
  std::string prefix;  // before the names of weights; empty unless weights_only
};

using SnapshotCommand =
    std::variant<ListSnapshots, VerifySnapshots, InspectSnapshot, DiffSnapshots, ExportSnapshot>;

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

/// Does what the command says; yields the exit status. All fail with kNotFound or kIo, and with
/// kCorrupt where a snapshot that is needed whole is damaged.
Result<int> run_snapshot(const SnapshotCommand& command);

}  // namespace ddprun
