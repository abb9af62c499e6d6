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

/// The rank that looks for a GPU.
struct GpuSeeker {
  int local_rank = 0;
  int local_world = 1;    // ranks on its node
  bool sees_own = false;  // CUDA_VISIBLE_DEVICES is set
};

/// The rank's index among the `visible` GPUs: its local rank. If a launcher shows each rank only
/// one GPU, as `srun --gpus-per-task=1` does, that one. REQUIRES: visible >= 1. Fails with
/// kInvalidArgument if there are too few.
Result<int> choose_gpu(const GpuSeeker& seeker, int visible);

}  // namespace ddprun
