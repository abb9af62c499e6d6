#pragma once

#include "launcher/ctl/doctor/core/diagnosis.hpp"

#include <map>
#include <string>

namespace ddprun {

/// What Slurm's variables say, and whether they contradict each other: a line for the step, and in
/// a job one for its list of hosts.
Findings judge_slurm(const std::map<std::string, std::string>& environment);

}  // namespace ddprun
