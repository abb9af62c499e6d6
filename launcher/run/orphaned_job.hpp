#pragma once

// A job of Slurm's whose batch host is lost. Where --no-kill lets the others go on without it,
// nobody is left to end the job when they are done: srun and the batch script ran there, and Slurm
// (seen with 22.05) leaves the job RUNNING, with all of its nodes, until its time is over.

#include <optional>
#include <set>
#include <string>

#include <signal.h>

namespace ddprun {

/// Cancels the job, once Slurm too has given up its batch host, and yields what came of it, in a
/// sentence; nothing where the batch host is not among `silent`, or the job has none.
///
/// Slurm may take SlurmdTimeout (300 s by default) to give it up; after twice that, or when one of
/// `signals`, which are blocked, comes, the job is left as it is.
///
/// `job`: Allocation::scontrol_id(). REQUIRES: as ask_slurm().
std::optional<std::string> end_orphaned_job(
    const std::string& job,
    const std::string& batch_host,
    const std::set<std::string>& silent,
    const sigset_t& signals);

}  // namespace ddprun
