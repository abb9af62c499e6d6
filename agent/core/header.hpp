#pragma once

// The first line of a job's log, which records what ran where.

#include "agent/core/launch_plan.hpp"
#include "base/endpoint.hpp"

#include <string>
#include <string_view>

namespace ddprun {

/// Facts that are known only when an attempt begins.
struct HeaderFacts {
  std::string date;  // and time, on the local clock
  std::string host;  // of rank 0
  int attempt = 0;
  int nodes = 1;
  int workers = 1;  // of all nodes
  Endpoint master;
  std::string interface;  // that workers are told to use (interface_choice.hpp); empty: none
  std::string python;     // that runs the workers of this node; empty: none
};

/// One line of fields; in the first attempt also a second line if Slurm has restarted the job.
std::string header_text(
    const HeaderPlan& header, std::string_view run_id, const HeaderFacts& facts);

}  // namespace ddprun
