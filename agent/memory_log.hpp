#pragma once

// Takes the samples of --memory-log and writes them down. Disks, /proc and the driver of the GPUs
// may hold it up, so all of it is for a thread of its own (memory_sampler.hpp).
//
// Whatever goes wrong with a file is said once and ends the sampling, never the job.

#include "agent/core/launch_plan.hpp"
#include "agent/core/memory_rows.hpp"
#include "agent/nvml_library.hpp"
#include "agent/row_file.hpp"
#include "base/error.hpp"
#include "base/time.hpp"

#include <atomic>
#include <memory>

namespace ddprun {

class MemoryLog {
 public:
  /// Touches nothing yet. Seconds count from here on.
  MemoryLog(bool wants_gpus, MemoryLogPaths paths);

  /// One sample of everything below this process, and of each GPU. The first one makes the files.
  void sample();

  /// Closes the files, and lets the driver go.
  void close();

  /// Nothing more can be written. Any thread may ask.
  bool has_ended() const { return has_ended_; }

 private:
  Result<void> open();
  Result<void> write();

  const bool wants_gpus_;
  const MemoryLogPaths paths_;
  CpuRows rows_;
  std::unique_ptr<RowFile> cpu_memory_;
  std::unique_ptr<RowFile> gpu_memory_;
  std::unique_ptr<RowFile> gpu_usage_;
  std::unique_ptr<NvmlLibrary> nvml_;  // none: GPUs are not sampled
  std::atomic<bool> has_ended_ = false;
};

}  // namespace ddprun
