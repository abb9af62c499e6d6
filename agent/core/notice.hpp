#pragma once

// What a worker is told after a preemption notice (docs/worker_contract.md).

#include "agent/core/launch_plan.hpp"

#include <optional>
#include <string>

namespace ddprun {

/// Until when workers may run at least after a notice by `signal` at `now`, both in seconds since
/// 1970: by --shutdown-timeout, or by Slurm. None: not known.
std::optional<double> deadline_after(int signal, double now, const NoticePlan& plan);

/// The content of the notice file: one line of JSON.
std::string notice_json(int signal, double now, const NoticePlan& plan);

}  // namespace ddprun
