#pragma once

#include "base/error.hpp"
#include "trainer/core/metrics.hpp"
#include "trainer/core/options.hpp"
#include "trainer/core/worker_place.hpp"
#include "trainer/model.hpp"
#include "trainer/process_group.hpp"
#include "trainer/snapshot_store.hpp"

#include <torch/torch.h>

#include <cstdint>
#include <memory>
#include <optional>

namespace ddprun {

/// Where one rank stands: all that training needs to go on besides weights, momentum and generator.
struct TrainPosition {
  Progress progress;          // the epoch under way, and the steps done
  std::int64_t consumed = 0;  // samples of this epoch that all ranks together have seen
  std::int64_t batches = 0;   // of this epoch, each rank
  MetricSums sums;            // this rank's, of this epoch
};

/// A run's snapshots, between torch and the files: gathers what the ranks hold into one snapshot,
/// and puts it back. Rank 0 alone touches the directory; what it chose reaches the others through
/// the process group (R10). Every call is collective: all ranks make it, or all wait.
class Snapshots {
 public:
  enum class Verdict : std::int64_t { kNothing = 0, kResume = 1, kFailed = 2 };

  /// What rank 0 tells the others before anything else; sent as int64 numbers.
  struct Header {
    Verdict verdict = Verdict::kNothing;
    std::int64_t step = 0;
    std::int64_t epoch = 0;
    std::int64_t consumed = 0;
    std::int64_t batches = 0;
    std::int64_t world = 0;         // of the snapshot
    std::int64_t has_momentum = 0;  // 0 or 1
  };

  /// Without a --snapshot-dir neither call does anything.
  Snapshots(const TrainOptions& options, const WorkerPlace& place, ProcessGroup group);

  /// Takes the directory over and puts the newest snapshot back into model, optimizer and the
  /// default generator; yields the position to go on from, none if there is no snapshot. At the
  /// world size that saved, every rank goes on with its own bits; at another, the samples that are
  /// left are divided anew. Fails, on all ranks, when the directory cannot be used or the snapshot
  /// belongs to other flags.
  Result<std::optional<TrainPosition>> resume(Model& model, torch::optim::SGD& optimizer);

  /// Saves. A full disk is told on stderr and training goes on; fails with kCancelled when a newer
  /// round owns the directory.
  Result<void> save(const TrainPosition& position, Model& model, torch::optim::SGD& optimizer);

  /// The newest step that save() has put on disk; -1: none. Rank 0 alone knows.
  std::int64_t saved_step() const { return saved_step_; }

 private:
  /// A header and, with kResume, what each rank of the saving world held for itself.
  struct Told {
    Header header;
    torch::Tensor rows;  // (world, bytes of a rank) uint8
  };

  Result<void> check_before_claim() const;
  Result<std::unique_ptr<LoadedSnapshot>> take_over();
  Result<Told> put_back(Model& model, torch::optim::SGD& optimizer);
  TrainPosition position_from(const Told& told) const;
  Result<void> write(const SnapshotState& state);
  void tell(Header& header);
  void broadcast(const std::vector<torch::Tensor>& tensors);

  const TrainOptions& options_;
  const WorkerPlace& place_;
  ProcessGroup group_;
  std::unique_ptr<SnapshotStore> store_;  // rank 0's
  std::int64_t saved_step_ = -1;
};

}  // namespace ddprun
