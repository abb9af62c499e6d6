#pragma once

#include "base/error.hpp"
#include "trainer/core/options.hpp"
#include "trainer/core/worker_place.hpp"
#include "trainer/snapshots.hpp"

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

namespace ddprun {

/// Files that the scripts of other programs load, written at the ends of epochs as those programs
/// write theirs; beside the snapshots, from which alone ddptrain goes on. Training waits for them.
/// Nothing in here is collective.
class Checkpoints {
 public:
  /// What stands in a file and in no position.
  struct Facts {
    double loss = 0;           // of the last epoch, over the training samples of all ranks
    double learning_rate = 0;  // of the next step
    bool is_best = false;      // this moment
    double best_accuracy = 0;  // so far, in percent
    std::int64_t samples = 0;  // trained by all ranks in all epochs
    bool is_last = false;      // the last epoch is done
    bool is_first = false;     // no epoch is
  };

  /// Without a --checkpoint-style no call does anything.
  Checkpoints(const TrainOptions& options, const WorkerPlace& place);

  /// Makes the directory, and removes what a killed process left of its files. Fails with kIo or
  /// kNotFound.
  Result<void> open() const;

  /// Writes the file of this moment, if one is due here: `at` is where the next epoch begins. Each
  /// is replaced in one step. Yields its path; a full disk is told on stderr, and training goes on.
  std::optional<std::string> save(
      const TrainPosition& at, const TrainedTensors& trained, const Facts& facts) const;

 private:
  bool is_due(std::int64_t next_epoch, const Facts& facts) const;
  Result<PyValue> value_of(
      CheckpointStyle style,
      const SnapshotState& state,
      const TrainPosition& at,
      const Facts& facts) const;

  const TrainOptions& options_;
  const WorkerPlace& place_;
  std::filesystem::path directory_;
};

}  // namespace ddprun
