#pragma once

#include "base/error.hpp"
#include "launcher/flags/core/flags.hpp"
#include "slurm/core/allocation.hpp"

#include <cstdint>
#include <vector>

namespace ddprun {

/// Whether the user says where the nodes meet, or that they do not: then Slurm's word is not
/// needed.
bool gives_endpoint(const CommandLine& line);

/// Whether this task is one more than the job has agents: the step has several tasks on a node, and
/// the user counts nodes (--nnodes, which the step has) or says where they meet. The first task of
/// each node takes part then. With --standalone, or where the port is 0, each task is a job of its
/// own.
bool is_surplus(const Allocation& allocation, const CommandLine& line);

/// Gives the flags that the command line leaves open what Slurm says: how many nodes, this node's
/// rank, where they meet, the id, and workers per node (GPUs, else CPUs; no more than
/// `usable_cpus`). Where the user says where the nodes meet, that holds, and nothing is refused; if
/// --nnodes asks for more nodes than the step has, the id is not Slurm's either, since nodes of
/// other steps could not have the same one.
///
/// Fails with kInvalidArgument if several agents share a node (but see is_surplus), if --nnodes
/// wants more nodes than the step has (fewer are right, and the others stand by), or if --node-rank
/// is another than Slurm's.
Result<void> fill_from_slurm(const Allocation& allocation, int usable_cpus, CommandLine& line);

/// Whether the nodes of the step are all that the job has, since --nnodes, which fill_from_slurm
/// has given, was left to Slurm.
bool is_whole_step(const CommandLine& line);

/// Where the nodes look for each other if --master-port, which fill_from_slurm has given, is taken;
/// empty if the user said where they meet.
std::vector<std::uint16_t> other_ports(const Allocation& allocation, const CommandLine& line);

/// Whether no node of the job is of another step, or from outside of Slurm. REQUIRES:
/// fill_from_slurm has filled `line`.
bool are_all_of_step(const Allocation& allocation, const CommandLine& line);

/// Where the node that was to listen at `port` tells the others of its job that it cannot. Of all
/// jobs the same, and beyond the ports that Linux gives to connections.
std::vector<std::uint16_t> refusal_ports(std::uint16_t port);

}  // namespace ddprun
