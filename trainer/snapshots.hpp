#pragma once

#include "base/error.hpp"
#include "trainer/core/metrics.hpp"
#include "trainer/core/options.hpp"
#include "trainer/core/worker_place.hpp"
#include "trainer/model.hpp"
#include "trainer/named_tensors.hpp"
#include "trainer/optimizer.hpp"
#include "trainer/process_group.hpp"
#include "trainer/snapshot_saver.hpp"
#include "trainer/snapshot_store.hpp"

#include <torch/torch.h>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace ddprun {

/// The position of one rank: everything that training needs to resume besides weights, optimizer
/// and generator.
struct TrainPosition {
  Progress progress;                     // the current epoch, and the steps done
  std::int64_t consumed = 0;             // samples of this epoch consumed by all ranks together
  std::int64_t batches = 0;              // of this epoch, each rank
  MetricSums sums;                       // this rank's, of this epoch
  std::map<std::string, double> extras;  // other values, under the names given to Snapshots
};

/// The tensors in a snapshot.
struct TrainedTensors {
  Model& model;
  Optimizer& optimizer;
};

/// A run's snapshots, between torch and the files: gathers the ranks' state into one snapshot, and
/// restores it. Only rank 0 accesses the directory; its choice reaches the others through the
/// process group (R10). Every call is collective: if a rank does not make it, the others wait.
class Snapshots {
 public:
  enum class Verdict : std::int64_t { kNothing = 0, kResume = 1, kFailed = 2 };

  /// The first message of rank 0 to the others; sent as int64 numbers.
  struct Header {
    Verdict verdict = Verdict::kNothing;
    std::int64_t step = 0;
    std::int64_t epoch = 0;
    std::int64_t consumed = 0;
    std::int64_t batches = 0;
    std::int64_t world = 0;  // of the snapshot
  };

  /// Without --snapshot-dir nothing is saved, and only --resume is loaded. `extras`: the names in a
  /// position's extras.
  Snapshots(
      const TrainOptions& options,
      const WorkerPlace& place,
      ProcessGroup group,
      std::vector<std::string> extras);

  /// Takes over the directory and restores the newest snapshot, or the one of --resume if there is
  /// none, into model, optimizer and the default generator. Yields the position to resume from,
  /// none if there is no snapshot at all. At the world size that saved, every rank resumes with its
  /// own bits; at another, the remaining samples are divided again. Fails on all ranks if the
  /// directory cannot be used or the snapshot belongs to other flags: rank 0 with the reason, the
  /// others with kPeerLost.
  Result<std::optional<TrainPosition>> resume(const TrainedTensors& trained);

  /// Whether the measurement after `epoch` is the best so far, as rank 0 knows it; a best that
  /// could not be saved does not count. If it is, the next save() saves the best. Fails as save().
  /// REQUIRES: the options set a metric.
  Result<bool> is_best(const MetricSums& validated, std::int64_t epoch);

  /// The best so far, including one that is still to be saved; none before the first measurement.
  /// Known only to rank 0.
  const std::optional<BestSoFar>& best() const { return next_best_ ? next_best_ : best_; }

  /// Begins to save, and waits for the disk only if the previous snapshot is not written yet. A
  /// full disk is reported on stderr, and training continues. Fails with kCancelled if a newer
  /// round owns the directory; possibly only in the next call.
  Result<void> save(const TrainPosition& position, const TrainedTensors& trained);

  /// Waits until weights and optimizer may change again; call it before a step. Not collective.
  void wait_until_copied();

  /// Waits until the snapshot of save() is on disk. Fails as save(). Not collective.
  Result<void> finish();

  /// The newest step on disk, including the one resumed from; -1: none. Known only to rank 0.
  std::int64_t saved_step() const;

  /// From now on no snapshot can be written, as on a full disk: for drills.
  void fill_disk() { is_disk_full_ = true; }

 private:
  /// A header and, with kResume, the private state of each rank of the saving world.
  struct Restored {
    Header header;
    torch::Tensor rows;  // (world, bytes of a rank) uint8
  };

  /// A snapshot to resume from, and its path.
  struct Taken {
    std::unique_ptr<LoadedSnapshot> snapshot;  // null: there is none
    std::string path;
  };

  Result<void> check_before_claim() const;
  Result<Taken> take_over();
  Result<Taken> take_other() const;
  void take_best(const std::optional<BestSoFar>& saved);
  Result<Restored> put_back(const TrainedTensors& trained);
  TrainPosition position_from(const Restored& restored) const;
  torch::Tensor row_of_this_rank(const TrainPosition& position) const;
  std::map<std::string, double> numbers_of(const torch::Tensor& row) const;
  RankState rank_state_of(const torch::Tensor& row) const;
  Result<torch::Tensor> row_of(const RankState& rank, bool is_imported) const;
  Result<void> report_failure(const std::optional<Error>& failure);
  void broadcast_header(Header& header);
  void broadcast(const std::vector<torch::Tensor>& tensors);

  const TrainOptions& options_;
  const WorkerPlace& place_;
  ProcessGroup group_;
  std::vector<std::string> number_names_;  // of the doubles in a row
  bool is_disk_full_ = false;
  std::int64_t resumed_step_ = -1;        // on rank 0; -1: there was no snapshot
  std::int64_t saving_step_ = 0;          // of the snapshot begun last
  SnapshotName own_;                      // of this round's snapshots, except for the step
  std::optional<BestSoFar> best_;         // on rank 0: the best that is on disk, or was
  std::optional<BestSoFar> next_best_;    // at the moment that is to be saved next
  std::optional<BestSoFar> saving_best_;  // of the snapshot begun last
  NamedTensors model_;                    // being saved: parameters shared, buffers copied
  NamedTensors optimizer_;
  std::unique_ptr<SnapshotStore> store_;  // on rank 0, until the saver has it
  std::unique_ptr<SnapshotSaver> saver_;  // on rank 0
};

}  // namespace ddprun
