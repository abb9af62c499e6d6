#pragma once

// The training state as a value, and as the files of a snapshot; docs/snapshots.md defines the
// format. snapshot_store.cpp does the file I/O.

#include "base/error.hpp"
#include "trainer/core/best.hpp"
#include "trainer/core/manifest.hpp"
#include "trainer/core/safetensors.hpp"

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace ddprun {

/// An argument without a flag: the file from which `ddpctl snapshot import` made the
/// snapshot. Such a snapshot has only what its file had, and its rank may lack generator and
/// sums.
inline constexpr char kImportedFrom[] = "imported-from";

/// A sum of each rank: the samples of this epoch in its metrics. Steps that overflowed in fp16 do
/// not count. At another world size, rank 0 takes over all sums.
inline constexpr char kSamplesOfEpoch[] = "samples";

/// A sum of each rank: the samples that all ranks together have trained in all epochs.
inline constexpr char kSamplesOfRun[] = "samples_of_run";

/// The prefix of each number of the loss scale's state among a rank's sums.
inline constexpr char kScalerPrefix[] = "scaler.";

/// The file of a snapshot that contains the model's tensors.
inline constexpr char kModelFile[] = "model.safetensors";

/// The state of one rank besides the weights, which are the same on all ranks.
struct RankState {
  std::vector<std::byte> rng;          // the generator's state in torch's format
  std::map<std::string, double> sums;  // metric sums of the epoch so far, only of this rank

  bool operator==(const RankState&) const = default;
};

/// Everything that training needs to resume as if it had not stopped. Tensor bytes are
/// borrowed. `parameters` are the names in the order of the optimizer, for Python, which
/// numbers them: the tensors in a file have another order. Empty in snapshots of programs that
/// did not save them.
struct SnapshotState {
  std::int64_t step = 0;      // updates of the weights since the start of the job
  std::int64_t epoch = 0;     // the current epoch
  std::int64_t consumed = 0;  // samples of this epoch that all ranks together have consumed
  std::int64_t batches = 0;   // batches of this epoch that each rank has consumed
  std::map<std::string, std::string> arguments;  // arguments_of_job(), and settings_of_job()
  std::vector<RankState> ranks;                  // by rank: its length is the world size
  std::vector<TensorView> model;                 // parameters and buffers, named as in state_dict
  std::vector<TensorView> optimizer;
  // Initialised here too: otherwise g++ warns if designated initialisers leave it out.
  std::vector<std::string> parameters = {};      // NOLINT(readability-redundant-member-init)
  std::optional<BestSoFar> best = std::nullopt;  // at this moment; this one, if it has its name
};

/// The manifest of `state` saved as `name`, without the files: the code that writes them adds them.
Manifest manifest_of(const SnapshotState& state, const SnapshotName& name);

/// The files of a snapshot besides the manifest: tensors by file name. The views in them point into
/// `state`. REQUIRES: at least one rank.
std::map<std::string, EncodedTensors> encode_state(const SnapshotState& state);

/// The inverse of encode_state() and manifest_of(). The views point into `contents`, which has
/// every file of the manifest by name. Fails with kCorrupt, naming the file, also if the ranks'
/// count of samples of this epoch differs from the manifest's.
Result<SnapshotState> decode_state(
    const Manifest& manifest, const std::map<std::string, std::span<const std::byte>>& contents);

}  // namespace ddprun
