#pragma once

#include <ATen/record_function.h>

namespace ddprun {

/// During its lifetime, each PhaseRange of this thread is also an NVTX range, which nsys shows.
/// NVTX does nothing if no tool listens. Construct and destroy it on one thread, between ranges.
class NvtxRanges {
 public:
  NvtxRanges();
  ~NvtxRanges();
  NvtxRanges(const NvtxRanges&) = delete;
  NvtxRanges& operator=(const NvtxRanges&) = delete;

 private:
  at::CallbackHandle handle_;
};

}  // namespace ddprun
