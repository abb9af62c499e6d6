#pragma once

#include "agent/core/launch_plan.hpp"
#include "base/error.hpp"
#include "launcher/flags/core/options.hpp"

#include <vector>

namespace ddprun {

/// The plan of each job, one without --independent, with everything that differs between jobs:
/// program, row of the grid, id and share of this machine. REQUIRES: options.plan is complete
/// except for these. Fails with kInvalidArgument, kNotFound or kNotExecutable, and with kCorrupt if
/// the grid file is invalid.
Result<std::vector<LaunchPlan>> plans_of(const Options& options, const Environment& environment);

}  // namespace ddprun
