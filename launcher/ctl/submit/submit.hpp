#pragma once

#include "base/error.hpp"
#include "launcher/ctl/submit/core/arguments.hpp"

namespace ddprun {

/// `ddpctl submit`: unpacks the commit, unless an earlier submission did, and calls sbatch with the
/// script changed so that its job runs there. Yields the exit status: sbatch's own, kExitRefused if
/// the state of the work tree forbids the call, kExitNotFound without the script, git or sbatch.
/// Fails with kInvalidArgument, or if a system call failed.
Result<int> submit(const SubmitOptions& options);

}  // namespace ddprun
