#pragma once

// What the command line of ddptrain asks for, as values that cannot be wrong: options.cpp makes
// them, and nothing behind it reads a flag.

#include "base/error.hpp"
#include "trainer/core/model_kind.hpp"

#include <cstdint>
#include <map>
#include <optional>
#include <string>

namespace ddprun {

enum class DatasetKind : std::uint8_t { kMnist, kFashionMnist };

/// The flag value that names it.
const char* name_of(DatasetKind kind);

struct TrainOptions {
  bool must_be_distributed = false;  // refuse to train where nothing says which rank this is
  bool prints_environment = false;   // instead of training
  DatasetKind dataset = DatasetKind::kFashionMnist;
  std::string data_dir;  // where the IDX files lie
  ModelKind model = ModelKind::kConvNet;
  std::int64_t epochs = 1;
  std::int64_t first_epoch = 0;  // the number of the first epoch: seeds the sampler, names records
  std::int64_t batch_size = 64;  // per rank
  double learning_rate = 0.01;
  double momentum = 0.9;
  std::int64_t seed = 0;                            // weights and dropout
  std::int64_t sampler_seed = 0;                    // the order of the samples
  std::optional<std::int64_t> limit_train_samples;  // the first N of the file; none: all
  std::optional<std::int64_t> limit_test_samples;
  int num_threads = 1;                      // of each rank
  std::optional<std::string> metrics_file;  // JSON lines, written by rank 0
  std::optional<std::string> sample_trace;  // JSON lines, written by every rank
  std::optional<std::string> snapshot_dir;  // none: no snapshots
  std::int64_t snapshot_every_steps = 100;  // besides one at the end

  /// Flips a bit of rank 0's first gradient in this step, so that a test sees parity fail.
  std::optional<std::int64_t> flip_gradient_bit_at_step;

  /// The number behind the last epoch's.
  std::int64_t end_epoch() const { return first_epoch + epochs; }
};

/// The flags that a job must keep to go on from its snapshots, by name.
std::map<std::string, std::string> arguments_of_job(const TrainOptions& options);

/// Fails with kInvalidArgument, naming the flag and both values, unless `saved` are the
/// arguments_of_job() of `options`.
Result<void> check_same_job(
    const std::map<std::string, std::string>& saved, const TrainOptions& options);

}  // namespace ddprun
