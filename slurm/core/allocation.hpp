#pragma once

// What Slurm gave to this task, read from the environment of a step (what one `srun` starts).
//
// The step's variables are the truth for a launcher: the job's may name more nodes, HOSTNAME and
// SLURM_JOB_GPUS are those of the batch host, and SLURM_PROCID is set in batch scripts too.
// Variables that contradict each other are refused, never guessed at.

#include "base/error.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace ddprun {

/// Every Allocation in existence agrees with itself: nodes and tasks_per_node are equally many and
/// at least one, and this task is one of them.
struct Allocation {
  std::uint32_t job_id = 0;         // each element of an array has one of its own
  std::uint32_t step_id = 0;        // from 0 on within the job
  std::vector<std::string> nodes;   // of the step, in Slurm's order: the index is the node id
  std::vector<int> tasks_per_node;  // parallel to nodes
  std::size_t node_id = 0;          // this node's index
  int task_id = 0;          // SLURM_PROCID: among tasks(); on a node it need not go on by one
  int local_id = 0;         // among tasks_here()
  int job_nodes = 0;        // of the whole job, at least nodes.size() when it began
  std::optional<int> cpus;  // of the step on this node, whatever number of tasks shares them
  std::optional<int> gpus;  // that this task may use; none: Slurm says nothing of GPUs
  int restarts = 0;         // how often the job was requeued
  std::optional<std::int64_t> end_time;     // of the job, seconds since 1970; newer versions say it
  std::optional<std::uint32_t> array_job;   // SLURM_ARRAY_JOB_ID, in an array
  std::optional<std::uint32_t> array_task;  // SLURM_ARRAY_TASK_ID, with array_job
  std::string batch_host;                   // where the batch script runs; empty: there is none
  bool is_heterogeneous = false;            // its nodes may differ in CPUs and GPUs

  int tasks() const;
  int tasks_here() const { return tasks_per_node[node_id]; }
  const std::string& node_name() const { return nodes[node_id]; }

  /// Whether any node runs several tasks, which is one agent too many.
  bool has_shared_nodes() const;

  static constexpr int kPorts = 4;
  /// Where the job's first process listens, the same on all nodes: at 10000 + job id mod 10000, or,
  /// where that is taken, at the next of these. Two jobs whose ids end alike share them all; each
  /// but the first is nobody's first.
  std::array<std::uint16_t, kPorts> ports() const;

  /// By what scontrol knows this job and no other: "7782523", of an array's element "7782520_3". An
  /// array has the job id of one of its elements, so scontrol takes that id for all of them.
  std::string scontrol_id() const;

  /// As Slurm writes it: "7782523.0".
  std::string name() const;

  /// "7782523", and "7782523_step2" in a later step than the first.
  std::string run_name() const;

  bool operator==(const Allocation&) const = default;
};

/// The allocation, or nothing where no `srun` started this process for a step: on a login node, in
/// a batch script, in the shell of salloc (which some sites run as a step of one task on the first
/// node, with an id from 4294967280 on). An empty SLURM_STEP_ID is none: so people leave Slurm.
///
/// Fails with kInvalidArgument, naming the variable, its value and the remedy.
Result<std::optional<Allocation>> find_allocation(
    const std::map<std::string, std::string>& environment);

/// The srun that starts one task on each node of the step.
///
/// `--ntasks-per-node=1` alone does not: in a job with more tasks per node, srun honours the job.
std::string srun_of_one_each(const Allocation& allocation);

/// What to say where agents must not share a node: the numbers, and the srun that is right.
Error agents_share_nodes(const Allocation& allocation);

}  // namespace ddprun
