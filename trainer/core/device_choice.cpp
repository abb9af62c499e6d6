#include "trainer/core/device_choice.hpp"

#include "base/check.hpp"

#include <fmt/format.h>

namespace ddprun {

const char* name_of(DeviceKind kind) {
  return kind == DeviceKind::kCpu ? "cpu" : "cuda";
}

Result<int> choose_gpu(int local_rank, int visible) {
  DDPRUN_CHECK(visible >= 1);
  if (visible == 1) return 0;
  if (local_rank < visible) return local_rank;
  return make_error(
      Errc::kInvalidArgument,
      fmt::format(
          "LOCAL_RANK is {}, and this process sees {} GPUs; start as many ranks on a node as it "
          "has GPUs (--nproc-per-node=gpu)",
          local_rank,
          visible));
}

}  // namespace ddprun
