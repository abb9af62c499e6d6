#pragma once

#include "base/error.hpp"

#include <cstdint>
#include <string_view>

namespace ddprun {

/// The peak resident size of a process, in bytes: "VmHWM" of /proc/PID/status (proc(5)). Fails with
/// kCorrupt if it is missing, as for a kernel thread.
Result<std::int64_t> parse_peak_rss(std::string_view status);

}  // namespace ddprun
