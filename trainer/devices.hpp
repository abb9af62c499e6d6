#pragma once

#include "base/error.hpp"
#include "trainer/core/device_choice.hpp"
#include "trainer/core/worker_place.hpp"
#include "trainer/device.hpp"

#include <memory>

namespace ddprun {

/// The device of a rank, and which kind it turned out to be: never kAuto.
struct OpenedDevice {
  DeviceKind kind = DeviceKind::kCpu;
  std::unique_ptr<Device> device;
};

/// The device of this rank. A GPU's module is looked for where DDPRUN_CUDA_MODULE says, else beside
/// the program, else where ddptrain's is installed, else where this program's linker looks, as
/// beside the library of find_package(ddprun); it stays open until the process ends. kAuto loads it
/// only if that variable is set or there is a driver of NVIDIA's; if it then yields no GPU, one
/// rank of the node says why it trains on the CPU.
///
/// Called before anything else of torch: what it asks once about CUDA it remembers. With kCuda it
/// fails with kNotFound where there is no module or no GPU, and with kInvalidArgument where
/// LOCAL_RANK has none.
Result<OpenedDevice> open_device(DeviceKind wanted, const WorkerPlace& place);

}  // namespace ddprun
