#pragma once

// NVIDIA's management library, loaded when GPUs are to be sampled, so ddprun starts without it and
// is built without its header. Its calls may be slow: use it on a separate thread.

#include "agent/core/memory_rows.hpp"
#include "base/error.hpp"

#include <memory>
#include <string>
#include <vector>

namespace ddprun {

class NvmlLibrary {
 public:
  /// Fails with kNotFound if the library, the driver or any GPU is missing.
  static Result<std::unique_ptr<NvmlLibrary>> load();

  ~NvmlLibrary();
  NvmlLibrary(const NvmlLibrary&) = delete;
  NvmlLibrary& operator=(const NvmlLibrary&) = delete;

  /// All GPUs of this machine that this process may use, numbered as by nvidia-smi.
  std::vector<GpuSample> sample() const;

 private:
  struct Functions;
  struct Gpu {
    void* device = nullptr;
    unsigned index = 0;
    std::string name;
  };

  NvmlLibrary(std::unique_ptr<const Functions> functions, std::vector<Gpu> gpus);

  const std::unique_ptr<const Functions> functions_;
  const std::vector<Gpu> gpus_;
};

}  // namespace ddprun
