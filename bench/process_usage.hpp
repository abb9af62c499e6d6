#pragma once

// What a process costs, as the kernel counts it.

#include "base/error.hpp"
#include "base/time.hpp"

#include <cstdint>

#include <sys/types.h>

namespace ddprun {

/// CPU time of all threads of `pid` until now, from the scheduler's nanoseconds. Fails with
/// kNotFound if there is no such process.
Result<Duration> cpu_time_of(pid_t pid);

/// Memory of `pid` that is resident now. Fails with kNotFound if there is no such process.
Result<std::int64_t> resident_bytes_of(pid_t pid);

}  // namespace ddprun
