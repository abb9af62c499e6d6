#pragma once

// From argv and the environment to a plan that can be carried out.

#include "agent/core/launch_plan.hpp"
#include "base/error.hpp"
#include "launcher/flags/core/flags.hpp"
#include "slurm/core/requeue.hpp"

#include <span>
#include <string>
#include <vector>

namespace ddprun {

/// What main has to do.
struct Request {
  Action action = Action::kRun;
  std::string shell;                  // when action == kCompletion
  std::vector<LaunchPlan> plans;      // when action == kRun: one, or those of --independent
  RequeuePlan requeue;                // when action == kRun
  std::vector<std::string> warnings;  // one line each
};

/// Reads flags and PET_ variables, probes the machine, finds the program. Starts nothing. Fails
/// with kInvalidArgument (exit status 2), kNotFound (127), kNotExecutable (126), or kCorrupt if the
/// grid file is invalid (78), in one clause with value, reason and remedy.
Result<Request> read_request(
    std::span<const std::string> arguments, const Environment& environment);

}  // namespace ddprun
