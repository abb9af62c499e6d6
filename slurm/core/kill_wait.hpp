#pragma once

#include "base/time.hpp"

#include <optional>
#include <string_view>

namespace ddprun {

/// Time from Slurm's SIGTERM to its SIGKILL, from slurm.conf: KillWait, or 30 s without it. None if
/// the value is invalid; included files are not read.
std::optional<Duration> kill_wait(std::string_view slurm_conf);

}  // namespace ddprun
