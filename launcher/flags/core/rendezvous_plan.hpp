#pragma once

#include "base/error.hpp"
#include "launcher/flags/core/options.hpp"

namespace ddprun {

/// Makes plan.meeting, the id, and MASTER_ADDR and its port of the flags that overlap: who
/// bootstraps, where, and what has to be an address of this machine (options.own_hosts). REQUIRES:
/// every flag of `line` was applied. Fails with kInvalidArgument where they contradict each other,
/// or leave open where several nodes meet.
Result<void> plan_rendezvous(const CommandLine& line, Options& options);

}  // namespace ddprun
