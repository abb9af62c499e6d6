#pragma once

#include "base/time.hpp"

#include <optional>
#include <string_view>

namespace ddprun {

/// From Slurm's SIGTERM to its SIGKILL, as slurm.conf has it: KillWait, 30 s where it is silent.
/// None where the value has no sense; files that it includes are not looked at.
std::optional<Duration> kill_wait(std::string_view slurm_conf);

}  // namespace ddprun
