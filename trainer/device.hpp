#pragma once

// The device on which a rank trains, so that train.cpp is the same for CPU and GPU. A GPU is
// reached through a module that is loaded at run time (trainer/cuda/): a run on the CPU loads
// neither CUDA nor NCCL.
//
// All calls come from the thread that trains.

#include "trainer/core/burn_in.hpp"

#include <ATen/core/Tensor.h>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include <chrono>
#include <memory>
#include <optional>
#include <string>

namespace ddprun {

class Device {
 public:
  Device() = default;
  virtual ~Device() = default;
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  /// The device of weights and batches.
  virtual at::Device place() const = 0;

  /// Adds to `group` the backend for collectives of this device's tensors; it already supports
  /// those of the CPU. `timeout` as for make_process_group(). Throws as torch does.
  virtual void join(c10d::ProcessGroup& group, std::chrono::milliseconds timeout) = 0;

  /// Ends what join() began, after all ranks are done with it. Not called if the run fails.
  virtual void leave() = 0;

  /// Whether batches are copied to this device, and should be made one ahead of the one in use.
  virtual bool copies() const = 0;

  /// A float32 tensor in CPU memory from which copies are fast.
  virtual at::Tensor make_host_tensor(at::IntArrayRef shape) = 0;

  /// A copy of `host` on the device. Returns before the copy is done, and keeps `host` until then.
  virtual at::Tensor begin_copy(const at::Tensor& host) = 0;

  /// Computations from here on see all earlier copies.
  virtual void await_copies() = 0;

  /// Returns when all work begun on the device is done: for time measurements.
  virtual void synchronise() = 0;

  /// Makes an outer profiler, nsys, record from here on, with the names of PhaseRange.
  virtual void begin_capture() = 0;
  virtual void end_capture() = 0;

  /// The state of a GPU; none for a CPU.
  virtual std::optional<GpuFigures> figures() = 0;
};

/// The interface of a device module, exported under the name kDeviceModuleSymbol.
struct DeviceModule {
  /// kDeviceInterface of its build: another build has other classes with the same names.
  const char* interface = nullptr;
  /// The number of devices that this process may use; if 0, `problem` says why.
  int (*count)(std::string& problem) = nullptr;
  /// Opens device `index`, 0 <= index < count(), for this thread. Throws as torch does.
  std::unique_ptr<Device> (*open)(int index) = nullptr;
};

inline constexpr char kDeviceModuleSymbol[] = "ddprun_device_module";

}  // namespace ddprun
