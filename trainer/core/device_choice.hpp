#pragma once

#include "base/error.hpp"

#include <cstdint>

namespace ddprun {

enum class DeviceKind : std::uint8_t {
  kAuto,  // a GPU if there is one for each rank, else the CPU
  kCpu,
  kCuda,
};

/// The flag value that names it.
const char* name_of(DeviceKind kind);

/// Who looks for a GPU.
struct GpuSeeker {
  int local_rank = 0;
  int local_world = 1;    // ranks on its node
  bool sees_own = false;  // CUDA_VISIBLE_DEVICES leaves it some
};

/// Which of the `visible` GPUs is the rank's: that of its local number. Where a launcher shows each
/// rank one GPU alone, as `srun --gpus-per-task=1`, it is that one. REQUIRES: visible >= 1. Fails
/// with kInvalidArgument where there are too few.
Result<int> choose_gpu(const GpuSeeker& seeker, int visible);

}  // namespace ddprun
