#pragma once

#include "base/error.hpp"
#include "launcher/flags/core/flags.hpp"
#include "slurm/core/allocation.hpp"

#include <cstdint>
#include <vector>

namespace ddprun {

/// Whether the user gives an endpoint, or says that there is none; then the endpoint from Slurm is
/// not needed.
bool gives_endpoint(const CommandLine& line);

/// Whether this task is one more than the job has agents: the step has several tasks on a node, and
/// the user gives the number of nodes (--nnodes, which the step has) or an endpoint. Then only the
/// first task of each node takes part. With --standalone, or if the port is 0, each task is a job
/// of its own.
bool is_surplus(const Allocation& allocation, const CommandLine& line);

/// Fills the flags that the command line leaves open from Slurm: the number of nodes, this node's
/// rank, the endpoint, the id, and the workers per node (GPUs, else CPUs; at most `usable_cpus`).
/// An endpoint that the user gives takes precedence, and then nothing is refused. If --nnodes asks
/// for more nodes than the step has, the id is not Slurm's either, since nodes of other steps could
/// not have the same one.
///
/// Fails with kInvalidArgument if several agents share a node (but see is_surplus), if --nnodes is
/// more than the step has (fewer are allowed; the others are spares), or if --node-rank differs
/// from Slurm's.
Result<void> fill_from_slurm(const Allocation& allocation, int usable_cpus, CommandLine& line);

/// Whether the nodes of the step are all nodes of the job: --nnodes was left to Slurm and comes
/// from fill_from_slurm.
bool is_whole_step(const CommandLine& line);

/// Ports that the nodes try if --master-port, set by fill_from_slurm, is taken; empty if the user
/// gave an endpoint.
std::vector<std::uint16_t> other_ports(const Allocation& allocation, const CommandLine& line);

/// Whether all nodes of the job belong to this step. REQUIRES: fill_from_slurm has filled `line`.
bool are_all_of_step(const Allocation& allocation, const CommandLine& line);

/// Where the node that was to listen on `port` reports to the other nodes of its job that it
/// cannot. The same for all jobs, and above Linux's default range of ephemeral ports.
std::vector<std::uint16_t> refusal_ports(std::uint16_t port);

}  // namespace ddprun
