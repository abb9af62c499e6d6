#pragma once

#include "trainer/core/burn_in.hpp"

#include <memory>
#include <string>

namespace ddprun {

/// Temperature, power and utilisation of a GPU, by NVIDIA's management library, which is opened at
/// run time. What it does not tell, or all where it is not there, is left out.
class GpuHealth {
 public:
  /// `bus_id`: of PCI, as "0000:1B:00.0".
  explicit GpuHealth(const std::string& bus_id);
  ~GpuHealth();
  GpuHealth(const GpuHealth&) = delete;
  GpuHealth& operator=(const GpuHealth&) = delete;

  /// Without those of memory. May take some milliseconds.
  GpuFigures figures() const;

 private:
  struct Library;

  std::unique_ptr<const Library> library_;  // null where there is none
  void* gpu_ = nullptr;
};

}  // namespace ddprun
