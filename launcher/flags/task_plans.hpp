#pragma once

#include "agent/core/launch_plan.hpp"
#include "base/error.hpp"
#include "launcher/flags/core/options.hpp"

#include <vector>

namespace ddprun {

/// A plan for each job that is asked for, one unless --independent says more, with what is its own:
/// program, row of the grid, id and share of this machine. REQUIRES: options.plan is complete but
/// for that. Fails with kInvalidArgument, kNotFound or kNotExecutable, and with kCorrupt where the
/// grid file is wrong.
Result<std::vector<LaunchPlan>> plans_of(const Options& options, const Environment& environment);

}  // namespace ddprun
