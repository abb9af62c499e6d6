#pragma once

#include "base/error.hpp"
#include "trainer/core/device_choice.hpp"
#include "trainer/core/worker_place.hpp"
#include "trainer/device.hpp"

#include <memory>

namespace ddprun {

/// The device of a rank, and its actual kind: never kAuto.
struct OpenedDevice {
  DeviceKind kind = DeviceKind::kCpu;
  std::unique_ptr<Device> device;
};

/// The device of this rank. The module of a GPU is looked for in DDPRUN_CUDA_MODULE, else beside
/// the program, else where ddptrain's is installed, else where this program's linker looks, as
/// beside the library of find_package(ddprun). It stays loaded until the process ends. kAuto loads
/// it only if that variable is set or there is an NVIDIA driver; if it then finds no GPU, one rank
/// of the node prints why it trains on the CPU.
///
/// Call this before anything else of torch: torch remembers its first answers about CUDA. With
/// kCuda, fails with kNotFound if there is no module or no GPU, and with kInvalidArgument if there
/// is none for LOCAL_RANK.
Result<OpenedDevice> open_device(DeviceKind wanted, const WorkerPlace& place);

}  // namespace ddprun
