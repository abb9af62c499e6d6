#pragma once

// `ddpctl snapshot ls | verify | inspect | diff | export | import`: shows what ddptrain has saved,
// converts it for Python, and imports what Python has saved. No verb claims or changes a directory
// of snapshots, so a job may continue to save; import creates a new directory. run_snapshot()
// yields the exit status; it fails with kNotFound or kIo, and with kCorrupt if a snapshot that must
// be intact is damaged.

#include "base/error.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <variant>

namespace CLI {  // NOLINT(readability-identifier-naming): CLI11 has named it
class App;
}  // namespace CLI

namespace ddprun {

struct ListSnapshots {
  std::string directory;
  bool json = false;
};

struct VerifySnapshots {
  std::string path;  // of a snapshot, or of a directory of them
};

struct InspectSnapshot {
  std::string path;   // of a snapshot, or of a directory: its newest one
  bool best = false;  // the best one there instead
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
  std::optional<std::int64_t> epoch;  // where training continues, if the file does not say it
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

/// The flags of all verbs; one verb is given.
struct RawSnapshot {
  ListSnapshots ls;
  VerifySnapshots verify;
  InspectSnapshot inspect;
  DiffSnapshots diff;
  ExportSnapshot to_python;
  ImportSnapshot from_python;
};

void add_snapshot(CLI::App& app, RawSnapshot& raw);

/// The given verb below `app`. Fails with kInvalidArgument. REQUIRES: `app` has parsed
/// `snapshot`.
Result<SnapshotCommand> checked(const CLI::App& app, const RawSnapshot& raw);

/// Prints the snapshots of a directory, newest first, with the content of their manifests. Checks
/// that each file exists with its full size, but does not read it.
Result<int> run_snapshot(const ListSnapshots& options);

/// Reads every byte and prints a line for each file. Yields kExitRefused if one is damaged.
Result<int> run_snapshot(const VerifySnapshots& options);

/// Prints everything in a snapshot except the values of its tensors.
Result<int> run_snapshot(const InspectSnapshot& options);

/// Prints where two snapshots, or two files of weights, differ. Yields kExitRefused if they do.
Result<int> run_snapshot(const DiffSnapshots& options);

/// Writes a file for Python: `model`, `optimizer`, `epoch` and `step`, or the weights alone.
Result<int> run_snapshot(const ExportSnapshot& options);

/// Makes a snapshot from a Python file, in a directory of its own, from which ddptrain resumes.
/// Fails with kCorrupt if the file cannot be converted, with kInvalidArgument if the directory has
/// snapshots.
Result<int> run_snapshot(const ImportSnapshot& options);

}  // namespace ddprun
