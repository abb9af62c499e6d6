#pragma once

// From argv and the environment to a plan that can be carried out.

#include "agent/core/launch_plan.hpp"
#include "base/error.hpp"
#include "launcher/core/flags.hpp"
#include "launcher/requeue.hpp"

#include <span>
#include <string>
#include <vector>

namespace ddprun {

/// What main is to do.
struct Request {
  Asks asks = Asks::kRun;
  LaunchPlan plan;                    // when asks == kRun
  RequeuePlan requeue;                // the same
  std::vector<std::string> warnings;  // one line each
};

/// Reads flags and PET_ variables, looks at the machine, finds the program. Starts nothing. Fails
/// with kInvalidArgument (exit status 2), kNotFound (127) or kNotExecutable (126), in one clause
/// with value, reason and remedy.
Result<Request> read_request(
    std::span<const std::string> arguments, const Environment& environment);

}  // namespace ddprun
