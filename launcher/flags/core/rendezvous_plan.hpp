#pragma once

#include "base/error.hpp"
#include "launcher/flags/core/options.hpp"

namespace ddprun {

/// Sets plan.rendezvous, the id, and MASTER_ADDR and its port from the flags, which overlap: which
/// node bootstraps, where, and which hosts must be this machine (options.own_hosts). REQUIRES:
/// every flag of `line` was applied. Fails with kInvalidArgument if flags contradict each other or
/// do not say where several nodes find each other.
Result<void> plan_rendezvous(const CommandLine& line, Options& options);

}  // namespace ddprun
