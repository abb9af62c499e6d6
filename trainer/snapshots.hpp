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

/// Where one rank stands: all that training needs to go on besides weights, optimizer and
/// generator.
struct TrainPosition {
  Progress progress;                     // the epoch under way, and the steps done
  std::int64_t consumed = 0;             // samples of this epoch that all ranks together have seen
  std::int64_t batches = 0;              // of this epoch, each rank
  MetricSums sums;                       // this rank's, of this epoch
  std::map<std::string, double> extras;  // what else there is, under the names Snapshots was given
};

/// What a snapshot holds of the tensors.
struct TrainedTensors {
  Model& model;
  Optimizer& optimizer;
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
    std::int64_t world = 0;  // of the snapshot
  };

  /// Without a --snapshot-dir nothing is saved, and only --resume taken up. `extras` are the names
  /// of a position's.
  Snapshots(
      const TrainOptions& options,
      const WorkerPlace& place,
      ProcessGroup group,
      std::vector<std::string> extras);

  /// Takes the directory over and puts the newest snapshot back into model, optimizer and the
  /// default generator, or the one of --resume where there is none; yields the position to go on
  /// from, none if there is no snapshot at all. At the world size that saved, every rank goes on
  /// with its own bits; at another, the samples that are left are divided anew. Fails on all
  /// ranks if the directory cannot be used or the snapshot belongs to other flags: rank 0 with the
  /// reason, the others with kPeerLost.
  Result<std::optional<TrainPosition>> resume(const TrainedTensors& trained);

  /// Whether what was just measured behind `epoch` is the best so far, as rank 0 knows it: what
  /// could not be saved does not count. If it is, the next save() is of the best. Fails as save().
  /// REQUIRES: the options say by which metric.
  Result<bool> is_best(const MetricSums& validated, std::int64_t epoch);

  /// The best so far, the one that is to be saved included; none before anything was measured. Rank
  /// 0 alone knows.
  const std::optional<BestSoFar>& best() const { return next_best_ ? next_best_ : best_; }

  /// Begins to save, and waits for the disk only if the snapshot before is still on its way. A full
  /// disk is told on stderr and training goes on; fails with kCancelled when a newer round owns the
  /// directory, of which the next call may tell.
  Result<void> save(const TrainPosition& position, const TrainedTensors& trained);

  /// Until weights and optimizer may change again: who steps calls it first. Not collective.
  void wait_until_copied();

  /// Until what save() began is on disk. Fails as save(). Not collective.
  Result<void> finish();

  /// The newest step on disk, the one resumed from included; -1: none. Rank 0 alone knows.
  std::int64_t saved_step() const;

  /// From now on no snapshot can be written, as on a full disk: for drills.
  void fill_disk() { is_disk_full_ = true; }

 private:
  /// A header and, with kResume, what each rank of the saving world held for itself.
  struct Told {
    Header header;
    torch::Tensor rows;  // (world, bytes of a rank) uint8
  };

  /// A snapshot that is taken up, and where it lies.
  struct Taken {
    std::unique_ptr<LoadedSnapshot> snapshot;  // null: there is none
    std::string path;
  };

  Result<void> check_before_claim() const;
  Result<Taken> take_over();
  Result<Taken> take_other() const;
  void take_best(const std::optional<BestSoFar>& saved);
  Result<Told> put_back(const TrainedTensors& trained);
  TrainPosition position_from(const Told& told) const;
  torch::Tensor row_of_this_rank(const TrainPosition& position) const;
  std::map<std::string, double> numbers_of(const torch::Tensor& row) const;
  RankState rank_state_of(const torch::Tensor& row) const;
  Result<torch::Tensor> row_of(const RankState& rank, bool is_imported) const;
  Result<void> told_failure(const std::optional<Error>& failure);
  void tell(Header& header);
  void broadcast(const std::vector<torch::Tensor>& tensors);

  const TrainOptions& options_;
  const WorkerPlace& place_;
  ProcessGroup group_;
  std::vector<std::string> number_names_;  // of the doubles in a row
  bool is_disk_full_ = false;
  std::int64_t resumed_step_ = -1;        // rank 0's; -1: there was no snapshot
  std::int64_t saving_step_ = 0;          // of the snapshot begun last
  SnapshotName own_;                      // of what this round saves, but for the step
  std::optional<BestSoFar> best_;         // rank 0's: the best that is on disk, or was
  std::optional<BestSoFar> next_best_;    // of the moment that is to be saved next
  std::optional<BestSoFar> saving_best_;  // of the snapshot begun last
  NamedTensors model_;                    // what is being saved: parameters shared, buffers copied
  NamedTensors optimizer_;
  std::unique_ptr<SnapshotStore> store_;  // rank 0's, until the saver has it
  std::unique_ptr<SnapshotSaver> saver_;  // rank 0's
};

}  // namespace ddprun
