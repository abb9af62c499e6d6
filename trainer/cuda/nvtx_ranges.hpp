#pragma once

#include <ATen/record_function.h>

namespace ddprun {

/// While it lives, each PhaseRange of this thread is a range of NVTX as well, which nsys shows.
/// Without a tool that listens NVTX does nothing. Made and unmade on one thread, between ranges.
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
