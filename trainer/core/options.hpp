#pragma once

// The command line of ddptrain as valid values: options.cpp makes them, and no later code reads a
// flag.

#include "base/error.hpp"
#include "trainer/core/best.hpp"
#include "trainer/core/data_options.hpp"
#include "trainer/core/ddp_options.hpp"
#include "trainer/core/device_choice.hpp"
#include "trainer/core/injection.hpp"
#include "trainer/core/model_kind.hpp"
#include "trainer/core/optimizer_options.hpp"
#include "trainer/core/profile_options.hpp"
#include "trainer/core/python_checkpoint.hpp"
#include "trainer/core/schedule.hpp"

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace ddprun {

/// The number type of forward passes.
enum class Precision : std::uint8_t {
  kFloat32,
  kBFloat16,  // autocast
  kFloat16,   // autocast, with a scaled loss
};

/// How torch computes.
struct NumericOptions {
  bool is_deterministic = false;  // the same bits in each run; other operators are refused
  // Of GPUs:
  bool uses_tf32 = false;         // float32 products and convolutions round their factors
  bool benchmarks_cudnn = false;  // cuDNN measures which of its algorithms is the fastest
};

/// What a run reports, and where.
struct ReportOptions {
  std::string style = "plain";              // of the lines on stdout
  std::int64_t every_steps = 0;             // steps between two step lines; 0: the style's default
  int verbosity = 0;                        // how often -v was given
  std::optional<std::string> metrics_file;  // JSON lines, written by rank 0
  std::optional<std::string> csv_file;
  std::optional<std::string> tensorboard_dir;
  std::optional<std::string> wandb_dir;
  std::optional<std::string> wandb_project;
  std::optional<std::string> wandb_group;
  std::optional<std::string> wandb_run_id;
  std::optional<std::string> run_name;
  std::optional<std::string> sample_trace;  // JSON lines, written by every rank
  /// Every flag that was given or has a default, without leading hyphens, and its value: for files
  /// that record how a run was started.
  std::vector<std::pair<std::string, std::string>> flags;
};

/// Which snapshots of a run are kept, and when they are saved.
struct SnapshotOptions {
  std::optional<std::string> directory;   // none: no snapshots
  std::optional<std::string> begun_with;  // a snapshot to resume from if `directory` has none
  std::int64_t every_steps = 100;         // in addition to one at the end
  std::size_t keep = 2;                   // number of newest snapshots to keep
  std::optional<BestMetric> keeps_best;   // also the best by this, saved when measured
};

/// Files for the scripts of other programs, in addition to the snapshots.
struct CheckpointOptions {
  std::optional<CheckpointStyle> style;  // none: no files
  std::string directory;
  std::int64_t every_epochs = 1;
  std::optional<std::string> file_name;  // for a style with one file; none: the style's default
};

struct TrainOptions {
  bool must_be_distributed = false;  // fail if nothing says which rank this is
  bool prints_environment = false;   // instead of training
  std::optional<int> local_rank;     // from a launcher that sets no variable for it
  bool counts_parameters = false;    // instead of training

  DataOptions data;
  ModelOptions model;
  std::optional<std::int64_t> train_samples;  // the number found in the data
  bool has_classes_of_data = false;           // the model has as many classes as the data
  std::optional<std::string> pretrained;      // a file of initial weights
  std::optional<std::string> compile;         // options for torch.compile, which C++ does not have
  std::optional<std::string> evaluated;       // a file of weights to test, without training
  bool synchronises_batch_norm = false;

  std::int64_t epochs = 1;
  std::int64_t first_epoch = 0;  // number of the first epoch: seeds the sampler, names records
  /// A burn-in repeats its epochs for this long, > 0.
  std::optional<double> burn_in_hours;
  std::int64_t batch_size = 64;  // per rank and pass
  std::int64_t accumulate = 1;   // passes of one step
  OptimizerOptions optimizer;
  ScheduleOptions schedule;
  std::optional<double> clip_norm;  // maximum norm of all gradients together
  Precision precision = Precision::kFloat32;
  DdpOptions ddp;
  std::chrono::seconds peer_timeout = kPeerTimeout;  // >= 1, of a collective
  std::uint64_t seed = 0;                            // weights and dropout
  std::uint64_t sampler_seed = 0;                    // the order of the samples
  int num_threads = 1;                               // of each rank
  DeviceKind device = DeviceKind::kAuto;             // never kAuto during training
  NumericOptions numerics;

  std::int64_t evaluate_every_epochs = 0;       // epochs that it divides; 0: only at the end
  std::int64_t check_replicas_every_steps = 0;  // 0: never
  std::optional<double> peak_tflops;            // of a device, for its utilisation
  ReportOptions report;
  SnapshotOptions snapshots;
  CheckpointOptions checkpoints;
  bool links_checkpoints = false;  // ./checkpoints links to the checkpoints or snapshots
  ProfileOptions profile;
  std::vector<Injection> injections;

  /// Flips a bit of rank 0's first gradient in this step, so that a test sees parity fail.
  std::optional<std::int64_t> flip_gradient_bit_at_step;

  /// The number after that of the last epoch.
  std::int64_t end_epoch() const { return first_epoch + epochs; }
};

/// The flag value that names it.
const char* name_of(Precision precision);
const char* name_of(Compression compression);

/// Fails with kInvalidArgument, naming the flag, if a flag is only for GPUs and the device is the
/// CPU.
Result<void> check_flags_of_gpus(const TrainOptions& options);

/// The flags that must stay the same to resume from a job's snapshots, by name.
std::map<std::string, std::string> arguments_of_job(const TrainOptions& options);

/// Other flags that affect the result, but may change after a snapshot, by name.
std::map<std::string, std::string> settings_of_job(const TrainOptions& options);

/// The settings_of_job() that differ from those in `saved`, for a person; empty: none.
std::string changed_settings(
    const std::map<std::string, std::string>& saved, const TrainOptions& options);

/// arguments_of_job() and settings_of_job() as text, for other ranks.
std::string flags_of_job(const TrainOptions& options);

/// Fails with kInvalidArgument, naming a flag and both values, unless `theirs` are the
/// flags_of_job() of `options`.
Result<void> check_flags_of_rank_0(const std::string& theirs, const TrainOptions& options);

/// Fails with kInvalidArgument, naming the flag and both values, unless `saved` are the
/// arguments_of_job() of `options`.
Result<void> check_same_job(
    const std::map<std::string, std::string>& saved, const TrainOptions& options);

}  // namespace ddprun
