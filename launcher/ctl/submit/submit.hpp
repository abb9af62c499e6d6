#pragma once

#include "base/error.hpp"
#include "launcher/ctl/submit/core/arguments.hpp"

namespace ddprun {

/// `ddpctl submit`: unpacks the commit, if no submission has before, and calls sbatch with the
/// script changed so that its job runs there. Yields the exit status: sbatch's own, kExitRefused
/// where it was not called for the state of the work tree, kExitNotFound without the script, git or
/// sbatch. Fails with kInvalidArgument, or where the system refused.
Result<int> submit(const SubmitOptions& options);

}  // namespace ddprun
