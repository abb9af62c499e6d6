#pragma once

#include "base/error.hpp"

#include <cstdint>

namespace ddprun {

enum class DeviceKind : std::uint8_t { kCpu, kCuda };

/// The flag value that names it.
const char* name_of(DeviceKind kind);

/// Which of `visible` GPUs is local rank `local_rank`'s: that of the same number. Where a launcher
/// shows each rank one GPU alone, as `srun --gpus-per-task=1`, it is that one. REQUIRES: visible >=
/// 1. Fails with kInvalidArgument where there are too few.
Result<int> choose_gpu(int local_rank, int visible);

}  // namespace ddprun
