#pragma once

// The results of a run: sums that are added over ranks, and the lines that show them.

#include "trainer/core/worker_place.hpp"

#include <cstdint>
#include <span>
#include <string>

namespace ddprun {

/// Sums over samples (rule P18): added over all ranks, then divided once.
struct MetricSums {
  double loss = 0;     // mean loss of each batch × its samples
  double correct = 0;  // correct predictions
  double samples = 0;

  /// Adds a batch of `batch` samples, of which `right` were predicted correctly.
  void add(double mean_loss, std::int64_t right, std::int64_t batch);
  void add(const MetricSums& other);

  double mean_loss() const { return loss / samples; }
  double accuracy_percent() const { return 100 * correct / samples; }
  bool operator==(const MetricSums&) const = default;
};

/// The position of a run. A step is one update of the weights; steps count from 1.
struct Progress {
  std::int64_t epoch = 0;
  std::int64_t step = 0;
};

/// The last line of rank 0: "final epoch=… step=… loss=… accuracy=… weights_sha256=…".
std::string final_line(Progress at, const MetricSums& test, const std::string& weights_sha256);

/// The line at the end of an epoch: "epoch=… step=… loss=… accuracy=… samples_per_s=…".
std::string epoch_line(Progress at, const MetricSums& train, double samples_per_s);

/// Records of the metrics file, one JSON object per line, including the newline; `time_s` is
/// wall-clock time in seconds since 1970.
std::string start_record(Progress at, int world, std::int64_t attempt, double time_s);
std::string step_record(Progress at, double loss, double time_s);
std::string epoch_record(Progress at, const MetricSums& train, double samples_per_s, double time_s);
std::string final_record(
    Progress at, const MetricSums& test, const std::string& weights_sha256, double time_s);

/// A record of the sample trace: the numbers of the samples in a rank's batch of a step.
std::string sample_record(
    Progress at, const WorkerPlace& place, std::span<const std::int64_t> samples);

}  // namespace ddprun
