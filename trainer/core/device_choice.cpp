#include "trainer/core/device_choice.hpp"

#include "base/check.hpp"

#include <fmt/format.h>

namespace ddprun {

const char* name_of(DeviceKind kind) {
  switch (kind) {
    case DeviceKind::kAuto:
      return "auto";
    case DeviceKind::kCpu:
      return "cpu";
    case DeviceKind::kCuda:
      return "cuda";
  }
  return "";
}

Result<int> choose_gpu(const GpuSeeker& seeker, int visible) {
  DDPRUN_CHECK(visible >= 1);
  if (visible == 1 && seeker.sees_own) return 0;
  const int local_rank = seeker.local_rank;
  if (local_rank < visible && seeker.local_world <= visible) return local_rank;
  return make_error(
      Errc::kInvalidArgument,
      fmt::format(
          "LOCAL_RANK is {} of {}, but this process sees {} {}; start as many ranks on a node as "
          "it "
          "it "
          "has GPUs (--nproc-per-node=gpu)",
          local_rank,
          seeker.local_world,
          visible,
          visible == 1 ? "GPU" : "GPUs"));
}

}  // namespace ddprun
