#pragma once

#include "agent/core/launch_plan.hpp"

namespace ddprun {

/// Whether other machines can connect to this job. If not, only users of this machine can.
bool is_open_to_others(const LaunchPlan& plan);

/// Whether this node has to make a key before it listens. Not by default if only this machine can
/// connect: a job of one node should start without loading a library.
bool needs_key(const LaunchPlan& plan);

}  // namespace ddprun
