#pragma once

// The training state as a value, and as the files of a snapshot; docs/snapshots.md is the format.
// snapshot_store.cpp owns the files.

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

/// An argument that no flag gives: the file that a snapshot was made of by `ddpctl snapshot
/// import`. Such a snapshot tells only what its file did, and a rank of it may lack generator and
/// sums.
inline constexpr char kImportedFrom[] = "imported-from";

/// A sum of each rank: the samples of this epoch that its metrics count. A step that overflowed in
/// fp16 is not among them. At another world size rank 0 takes all sums over.
inline constexpr char kSamplesOfEpoch[] = "samples";

/// A sum of each rank: samples that all ranks together have trained in all epochs.
inline constexpr char kSamplesOfRun[] = "samples_of_run";

/// Before each number of the loss scale's state among a rank's sums.
inline constexpr char kScalerPrefix[] = "scaler.";

/// The file of a snapshot that has the model's tensors.
inline constexpr char kModelFile[] = "model.safetensors";

/// What one rank holds besides the weights, which are the same on all.
struct RankState {
  std::vector<std::byte> rng;          // the generator's state, as torch gives it
  std::map<std::string, double> sums;  // metric sums of the epoch so far, of this rank alone

  bool operator==(const RankState&) const = default;
};

/// Everything that training needs to go on as if it had not stopped. Tensor bytes are borrowed.
/// `parameters` are the names in the order in which the optimizer has them, for Python, which
/// counts them: a file's tensors have another order. Empty in snapshots of programs that did not
/// save them.
struct SnapshotState {
  std::int64_t step = 0;      // updates of the weights since the job began
  std::int64_t epoch = 0;     // the epoch that is under way
  std::int64_t consumed = 0;  // samples of this epoch that all ranks together have consumed
  std::int64_t batches = 0;   // batches of this epoch that each rank has consumed
  std::map<std::string, std::string> arguments;  // arguments_of_job(), and settings_of_job()
  std::vector<RankState> ranks;                  // by rank: the world is as large as this
  std::vector<TensorView> model;                 // parameters and buffers, named as in state_dict
  std::vector<TensorView> optimizer;
  // Initialised here too, or g++ warns where designated initialisers leave it out.
  std::vector<std::string> parameters = {};      // NOLINT(readability-redundant-member-init)
  std::optional<BestSoFar> best = std::nullopt;  // at this moment; this one, if it names it
};

/// The manifest of `state` saved as `name`, but for the files: whoever writes them lists them.
Manifest manifest_of(const SnapshotState& state, const SnapshotName& name);

/// The files of a snapshot besides the manifest: tensors by file name. The views in it point into
/// `state`. REQUIRES: at least one rank.
std::map<std::string, EncodedTensors> encode_state(const SnapshotState& state);

/// encode_state() and the manifest put together again; the views point into `contents`, which holds
/// every file of the manifest by name. Fails with kCorrupt, naming the file, also if the ranks
/// count other samples of this epoch than the manifest.
Result<SnapshotState> decode_state(
    const Manifest& manifest, const std::map<std::string, std::span<const std::byte>>& contents);

}  // namespace ddprun
