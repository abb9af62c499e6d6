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
/// do. ddptrain itself resumes only from snapshots. Training waits for these writes. Nothing in
/// here is collective.
class Checkpoints {
 public:
  /// Values in a file that are not part of a position.
  struct Facts {
    double loss = 0;           // of the last epoch, over the training samples of all ranks
    double learning_rate = 0;  // of the next step
    bool is_best = false;      // at this moment
    double best_accuracy = 0;  // so far, in percent
    std::int64_t samples = 0;  // trained by all ranks in all epochs
    bool is_last = false;      // the last epoch is done
    bool is_first = false;     // no epoch is done
  };

  /// Without --checkpoint-style, no call does anything.
  Checkpoints(const TrainOptions& options, const WorkerPlace& place);

  /// Creates the directory, and removes partial files of a killed process. Fails with kIo or
  /// kNotFound.
  Result<void> open() const;

  /// Writes the file of this moment, if one is due; `at` is where the next epoch begins. Replaces
  /// it in one step. Yields its path. A full disk is reported on stderr, and training continues.
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
