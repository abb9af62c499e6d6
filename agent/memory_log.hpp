#pragma once

// Takes the samples of --memory-log and writes them. Disks, /proc and the driver of the GPUs may be
// slow, so all of it runs on a separate thread (memory_sampler.hpp).
//
// If a file cannot be written, that is reported once and ends the sampling, never the job.

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
  /// Opens nothing yet. Seconds count from now on.
  MemoryLog(bool wants_gpus, MemoryLogPaths paths);

  /// Samples every process below this one, and each GPU. The first call creates the files.
  void sample();

  /// Closes the files and releases the driver.
  void close();

  /// Whether nothing more can be written. Callable from any thread.
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
