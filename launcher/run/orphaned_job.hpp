#pragma once

// A Slurm job whose batch host is lost. If --no-kill lets the other nodes continue, nothing is left
// to end the job when they are done: srun and the batch script ran on the lost host, and Slurm
// (seen with 22.05) leaves the job RUNNING, with all of its nodes, until its time limit.

#include <optional>
#include <set>
#include <string>

#include <signal.h>

namespace ddprun {

/// Cancels the job once Slurm too considers its batch host lost, and yields what happened in a
/// sentence; nothing if the batch host is not among `silent` or the job has none.
///
/// Slurm may take SlurmdTimeout (300 s by default) to notice. The job is left as it is after twice
/// that time, or if one of `signals`, which are blocked, arrives.
///
/// `job`: Allocation::scontrol_id(). REQUIRES: as ask_slurm().
std::optional<std::string> end_orphaned_job(
    const std::string& job,
    const std::string& batch_host,
    const std::set<std::string>& silent,
    const sigset_t& signals);

}  // namespace ddprun
