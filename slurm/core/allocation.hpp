#pragma once

// What Slurm gave to this task, read from the environment of a step (started by one `srun`).
//
// A launcher must use the step's variables: the job's may name more nodes, HOSTNAME and
// SLURM_JOB_GPUS are those of the batch host, and SLURM_PROCID is set in batch scripts too.
// Variables that contradict each other are an error; nothing is guessed.

#include "base/error.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun {

/// Invariant: an Allocation is consistent. nodes and tasks_per_node have the same length, at least
/// one, and this task is one of them. More than twelve members: each is a fact that Slurm states.
struct Allocation {
  std::uint32_t job_id = 0;              // each element of an array has its own
  std::uint32_t step_id = 0;             // counted from 0 within the job
  std::vector<std::string> nodes;        // of the step, in Slurm's order: the index is the node id
  std::vector<int> tasks_per_node;       // parallel to nodes
  std::size_t node_id = 0;               // this node's index
  int task_id = 0;                       // SLURM_PROCID: among tasks(); not consecutive on a node
  int local_id = 0;                      // among tasks_here()
  int job_nodes = 0;                     // of the whole job, at least nodes.size() at its start
  std::optional<int> cpus;               // of the step on this node, shared by its tasks
  std::optional<int> gpus;               // that this task may use; none: Slurm does not say
  int restarts = 0;                      // how often the job was requeued
  std::optional<std::int64_t> end_time;  // of the job, seconds since 1970; in newer versions
  std::optional<std::uint32_t> array_job;   // SLURM_ARRAY_JOB_ID, in an array
  std::optional<std::uint32_t> array_task;  // SLURM_ARRAY_TASK_ID, with array_job
  std::string batch_host;                   // where the batch script runs; empty: no batch script
  bool is_heterogeneous = false;            // its nodes may differ in CPUs and GPUs

  int tasks() const;
  int tasks_here() const { return tasks_per_node[node_id]; }
  const std::string& node_name() const { return nodes[node_id]; }

  /// Whether any node runs several tasks: only one of them can run an agent.
  bool has_shared_nodes() const;

  static constexpr int kPorts = 4;
  /// Where the job's first process listens, the same on all nodes: on 10000 + job id mod 10000, or,
  /// if that is taken, on the next of these ports. Two jobs whose ids end alike share all of them.
  /// No port but the first is the first port of another job.
  std::array<std::uint16_t, kPorts> ports() const;

  /// The id by which scontrol knows only this job: "7782523"; for an array's element "7782520_3".
  /// An array has the job id of one of its elements, and scontrol takes that id for all of them.
  std::string scontrol_id() const;

  /// In Slurm's notation: "7782523.0".
  std::string name() const;

  /// "7782523" in the first step, "7782523_step2" in a later one.
  std::string run_name() const;

  bool operator==(const Allocation&) const = default;
};

/// The allocation, or nothing if no `srun` started this process for a step: on a login node, in a
/// batch script, in the shell of salloc (on some sites a step of one task on the first node, with
/// an id from 4294967280). An empty SLURM_STEP_ID means no step: users unset Slurm this way.
///
/// Fails with kInvalidArgument, naming the variable, its value and the remedy.
Result<std::optional<Allocation>> find_allocation(
    const std::map<std::string, std::string>& environment);

/// The srun command that starts one task on each node of the step.
///
/// `--ntasks-per-node=1` alone does not: in a job with more tasks per node, srun starts that many.
std::string srun_of_one_each(const Allocation& allocation);

/// The error if agents must not share a node: the numbers, and the correct srun command.
Error agents_share_nodes(const Allocation& allocation);

/// How many of `devices` a list such as CUDA_VISIBLE_DEVICES allows: CUDA uses the entries before
/// the first invalid one. Slurm writes numbers, UUIDs (not checked here), and NoDevFiles or -1 for
/// none.
int visible_devices(std::string_view list, int devices = std::numeric_limits<int>::max());

}  // namespace ddprun
