#pragma once

// How a training scales: compares the logs of the same training on different numbers of GPUs and
// nodes in two tables. The names of the jobs and the line of an epoch are those of KAUST's workshop
// on distributed training; slurm/templates/scaling.sh submits such jobs.

#include "base/error.hpp"
#include "launcher/ctl/reports/core/memory_log.hpp"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun {

/// The parts of a log's name: "ddp_2G4N-117.out" is job 117, on 4 nodes with 2 GPUs each.
struct ScalingJob {
  int gpus_per_node = 1;
  int nodes = 1;
  std::string id;

  int gpus() const { return gpus_per_node * nodes; }
  bool operator==(const ScalingJob&) const = default;
};

/// Reads a file name without its directory; "ddp_G1N1-117.out" is one GPU. Fails with
/// kInvalidArgument and the name.
Result<ScalingJob> parse_log_name(std::string_view name);

/// The line of one epoch in a log.
struct EpochResult {
  double train_loss = 0;
  double val_loss = 0;
  double train_accuracy = 0;  // percent
  double val_accuracy = 0;
  double images_per_s = 0;

  bool operator==(const EpochResult&) const = default;
};

/// The epoch with this number, counted from 1; any text may precede "Epoch [" in its line. The last
/// such line if a job was requeued. Fails with kCorrupt if there is no such line, or if the world
/// size differs from the job's number of GPUs.
Result<EpochResult> find_epoch(std::string_view log, int epoch, const ScalingJob& job);

struct ScalingRun {
  ScalingJob job;
  EpochResult epoch;
  std::optional<MemoryUse> memory;  // of GPU 0 of the first node, if there is a log of it
};

/// A table for the runs on one node, and one for those on several, which begins with the run on one
/// node that has as many GPUs per node. Factors are relative to the first row of a table. A table
/// without runs is left out.
std::string scaling_tables(std::vector<ScalingRun> runs, int epoch);

}  // namespace ddprun
