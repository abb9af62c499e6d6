#pragma once

// The events of a training, as values: line styles, files and dashboards are written only from
// these. Training creates them on every rank, with the sums of all ranks; later code decides which
// rank prints or stores what (line_style.hpp, report_fields.hpp, scalars.hpp).

#include "trainer/core/metrics.hpp"
#include "trainer/core/throughput.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace ddprun {

/// The value of a flag after parsing.
using ArgumentValue = std::variant<bool, std::int64_t, double, std::string>;

/// Flags in the order of --help, names with underscores ("batch_size").
using Arguments = std::vector<std::pair<std::string, ArgumentValue>>;

/// The kinds of process group that this program supports.
struct Backends {
  bool gloo = true;
  bool nccl = false;
  bool mpi = false;
};

/// The ranks have connected, data and model are loaded; nothing is trained yet.
struct RunBegan {
  Progress at;  // where it begins: not at 0 after a restart
  int world = 1;
  std::int64_t attempt = 0;  // number of restarts of the workers
  std::string dataset;
  std::string data_dir;
  std::string model;
  std::int64_t parameters = 0;
  std::int64_t trainable_parameters = 0;
  std::int64_t train_samples = 0;  // of all ranks
  std::int64_t test_samples = 0;
  std::uint64_t seed = 0;
  std::int64_t batch_size = 0;         // per rank
  std::int64_t batches_per_epoch = 0;  // of each rank
  int threads = 1;                     // of each rank
  std::string kernels;                 // torch's on this processor, such as "AVX2"
  std::string torch;                   // its version
  Backends backends;
  Arguments arguments;
  std::optional<std::string> tensorboard_dir = std::nullopt;  // none: no event file is written
};

/// A snapshot was loaded; training continues after it.
struct RunResumed {
  Progress at;               // the next epoch to train, and the steps done
  std::int64_t samples = 0;  // seen so far by all ranks in all epochs
};

/// An epoch begins or continues.
struct EpochBegan {
  Progress at;
};

/// One update of the weights. Rates without a value are left out of each report.
struct StepDone {
  struct Rates {
    double samples_per_s = 0;                           // of all ranks, over the last steps
    double eta_s = 0;                                   // until the last epoch ends; 0 if not known
    std::optional<double> tokens_per_s = std::nullopt;  // of all ranks
    std::optional<double> tflops =
        std::nullopt;                          // 1e12 floating-point operations per second and rank
    std::optional<double> mfu = std::nullopt;  // 0 to 1, see model_flops_utilisation()
  };

  Progress at;
  std::int64_t batch = 0;    // 1 <= batch <= batches, within the epoch
  std::int64_t batches = 0;  // of the epoch
  MetricSums sums;           // of this step's batch: of all ranks if they were summed, else of
                             // rank 0
  std::int64_t samples_of_epoch = 0;  // trained in this epoch by all ranks, this step's included
  std::int64_t samples_per_epoch = 0;
  std::int64_t samples_of_run = 0;  // by all ranks in all epochs
  double learning_rate = 0;
  std::optional<double> grad_norm = std::nullopt;  // before clipping
  Rates rates;
  PhaseTimes phases;
  std::int64_t peak_rss_bytes = 0;  // of this process; 0 if not requested
};

/// The training part of an epoch is over. `sums` cover all ranks.
struct EpochTrained {
  Progress at;
  MetricSums sums;
  double seconds = 0;        // since the epoch began or was resumed
  double samples_per_s = 0;  // of all ranks in that time
  double learning_rate = 0;  // of its last step
  std::int64_t samples_of_run = 0;
  double elapsed_s = 0;  // of the run
  double eta_s = 0;      // until the last epoch ends
};

/// The validation after an epoch, with the epoch's training for reports that show both.
struct EpochValidated {
  EpochTrained trained;
  MetricSums sums;  // of all ranks, each sample counted once (T26)
  std::optional<double> correct_top5 = std::nullopt;  // none: fewer than 6 classes, or not counted
  double batch_loss_sum = 0;  // sum of the mean losses of the batches of all ranks
  double seconds = 0;         // of the validation
  double epoch_seconds = 0;   // training and validation

  double samples_per_s() const { return sums.samples / seconds; }
  /// As KAUST counts: training samples over the whole epoch, including validation.
  double epoch_samples_per_s() const { return trained.sums.samples / epoch_seconds; }
};

/// A snapshot is complete. Reported on the rank that wrote it.
struct SnapshotSaved {
  Progress at;
  std::string path;
};

/// The run was told to stop: everything is saved, and the process ends.
struct RunStopped {
  Progress at;
  std::string signal = "SIGTERM";  // name of the received signal
};

/// All epochs are done, or there were none. `sums` are those of the test set, over all ranks.
struct RunEnded {
  Progress at;
  MetricSums sums;
  std::string weights_sha256;
  double seconds = 0;                  // of the run, including its start
  std::int64_t samples = 0;            // trained by all ranks in this run
  double samples_per_s = 0;            // trained by all ranks, over the time of the steps
  std::int64_t peak_tensor_bytes = 0;  // of the device's tensors; 0 if not counted
  std::int64_t peak_rss_bytes = 0;     // of this process; 0 if not known
  bool is_evaluation = false;          // nothing was trained
  std::optional<LoaderCeiling> ceiling = std::nullopt;  // of the model "dummy"
};

using ReportEvent = std::variant<
    RunBegan,
    RunResumed,
    EpochBegan,
    StepDone,
    EpochTrained,
    EpochValidated,
    SnapshotSaved,
    RunStopped,
    RunEnded>;

}  // namespace ddprun
