#pragma once

// The first line of a job's log, which records what ran where.

#include "agent/core/launch_plan.hpp"
#include "rendezvous/core/effects.hpp"

#include <string>

namespace ddprun {

/// What only this node knows when a round begins.
struct HeaderFacts {
  std::string date;       // and time, on the local clock
  std::string host;       // of rank 0
  std::string interface;  // that workers are told to use (interface_choice.hpp); empty: none
};

/// One line of fields; in the first attempt also a second line if Slurm has restarted the job.
/// REQUIRES: the plan has a header.
std::string header_text(
    const LaunchPlan& plan, const effects::StartWorkers& round, const HeaderFacts& facts);

}  // namespace ddprun
