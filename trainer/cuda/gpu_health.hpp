#pragma once

#include "trainer/core/burn_in.hpp"

#include <memory>
#include <string>

namespace ddprun {

/// Temperature, power and utilisation of a GPU, from NVIDIA's management library, which is loaded
/// at run time. Values that it does not report are left out; without the library, all of them.
class GpuHealth {
 public:
  /// `bus_id`: the PCI address, such as "0000:1B:00.0".
  explicit GpuHealth(const std::string& bus_id);
  ~GpuHealth();
  GpuHealth(const GpuHealth&) = delete;
  GpuHealth& operator=(const GpuHealth&) = delete;

  /// Without memory. May take some milliseconds.
  GpuFigures figures() const;

 private:
  struct Library;

  std::unique_ptr<const Library> library_;  // null if there is none
  void* gpu_ = nullptr;
};

}  // namespace ddprun
