#pragma once

// What a rank trains on, so that train.cpp reads the same for a processor and for a GPU. A GPU is
// reached through a module that is opened at run time (trainer/cuda/): a run on the CPU loads
// neither CUDA nor NCCL.
//
// All calls come from one thread, the one that trains.

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

  /// Where weights and batches lie.
  virtual at::Device place() const = 0;

  /// Gives `group` what it needs for collectives of this device's tensors; those of the CPU's it
  /// can do already. `timeout` as for make_process_group(). Throws as torch does.
  virtual void join(c10d::ProcessGroup& group, std::chrono::milliseconds timeout) = 0;

  /// Ends what join() began, when all ranks are done with it. Not called where the run fails.
  virtual void leave() = 0;

  /// Whether batches are copied here, and made better one ahead of the one in use.
  virtual bool copies() const = 0;

  /// Memory of the CPU's for float32, of a kind that copies are quick from.
  virtual at::Tensor make_host_tensor(at::IntArrayRef shape) = 0;

  /// `host` here. Returns before the copy is done, and keeps `host` until then.
  virtual at::Tensor begin_copy(const at::Tensor& host) = 0;

  /// What is calculated from here on sees all that was copied so far.
  virtual void await_copies() = 0;

  /// Returns when all that was begun here is done: for clocks.
  virtual void synchronise() = 0;

  /// Has an outer profiler, nsys, see what is done from here on, with the names of PhaseRange.
  virtual void begin_capture() = 0;
  virtual void end_capture() = 0;

  /// How it stands; none for a processor.
  virtual std::optional<GpuFigures> figures() = 0;
};

/// What a module of devices offers, under the name kDeviceModuleSymbol.
struct DeviceModule {
  /// kDeviceInterface of its build: another one has other classes behind the same names.
  const char* interface = nullptr;
  /// How many devices this process may use; where none, why, in `problem`.
  int (*count)(std::string& problem) = nullptr;
  /// Opens device `index`, 0 <= index < count(), for this thread. Throws as torch does.
  std::unique_ptr<Device> (*open)(int index) = nullptr;
};

inline constexpr char kDeviceModuleSymbol[] = "ddprun_device_module";

}  // namespace ddprun
