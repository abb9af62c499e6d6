#pragma once

#include "base/error.hpp"
#include "trainer/core/device_choice.hpp"
#include "trainer/core/worker_place.hpp"
#include "trainer/device.hpp"

#include <memory>

namespace ddprun {

/// The device of this rank. A GPU's module is looked for where DDPRUN_CUDA_MODULE says, else beside
/// the program, else where it is installed; it stays open until the process ends.
///
/// Called before anything else of torch: what it asks once about CUDA it remembers. Fails with
/// kNotFound where there is no module or no GPU, and with kInvalidArgument where LOCAL_RANK has
/// none.
Result<std::unique_ptr<Device>> open_device(DeviceKind kind, const WorkerPlace& place);

}  // namespace ddprun
