// ddprun_cuda.so: GPUs for ddptrain. This folder contains all code that needs CUDA and NCCL, and
// none of it is linked into a program.

#include "trainer/cuda/cuda_device.hpp"
#include "trainer/device.hpp"
#include "trainer/device_interface.hpp"

#include <cuda_runtime_api.h>

#include <memory>
#include <string>

namespace ddprun {
namespace {

int count_devices(std::string& problem) {
  int count = 0;
  const cudaError_t error = cudaGetDeviceCount(&count);
  if (error == cudaSuccess && count > 0) return count;
  problem = error == cudaSuccess ? "CUDA counts none" : cudaGetErrorString(error);
  static_cast<void>(cudaGetLastError());  // otherwise the next unrelated call would fail with it
  return 0;
}

std::unique_ptr<Device> open_device(int index) {
  return std::make_unique<CudaDevice>(index);
}

}  // namespace
}  // namespace ddprun

// The name by which a program finds it.
// NOLINTBEGIN(readability-identifier-naming)
extern "C" {
extern const ddprun::DeviceModule ddprun_device_module;
const ddprun::DeviceModule ddprun_device_module = {
    .interface = ddprun::kDeviceInterface,
    .count = &ddprun::count_devices,
    .open = &ddprun::open_device};
}
// NOLINTEND(readability-identifier-naming)
