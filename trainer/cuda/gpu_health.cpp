#include "trainer/cuda/gpu_health.hpp"

#include <dlfcn.h>

namespace ddprun {
namespace {

constexpr char kLibrary[] = "libnvidia-ml.so.1";
constexpr int kSuccess = 0;
constexpr int kOnTheGpu = 0;  // its temperature sensor
constexpr double kMilliwatts = 1000;

// The library's memory layout.
struct Utilisation {
  unsigned gpu = 0;
  unsigned memory = 0;
};

template <class Function>
bool find(void* library, Function*& function, const char* name) {
  function = reinterpret_cast<Function*>(::dlsym(library, name));
  return function != nullptr;
}

}  // namespace

/// The functions that we call; each yields 0 or an error.
struct GpuHealth::Library {
  int (*init)() = nullptr;
  int (*device)(const char*, void**) = nullptr;
  int (*temperature)(void*, int, unsigned*) = nullptr;
  int (*power)(void*, unsigned*) = nullptr;
  int (*utilisation)(void*, Utilisation*) = nullptr;
};

GpuHealth::GpuHealth(const std::string& bus_id) {
  void* const opened = ::dlopen(kLibrary, RTLD_NOW | RTLD_LOCAL);  // never closed
  if (opened == nullptr) return;
  auto library = std::make_unique<Library>();
  const bool has_all = find(opened, library->init, "nvmlInit_v2") &&
                       find(opened, library->device, "nvmlDeviceGetHandleByPciBusId_v2") &&
                       find(opened, library->temperature, "nvmlDeviceGetTemperature") &&
                       find(opened, library->power, "nvmlDeviceGetPowerUsage") &&
                       find(opened, library->utilisation, "nvmlDeviceGetUtilizationRates");
  if (!has_all || library->init() != kSuccess) return;
  if (library->device(bus_id.c_str(), &gpu_) != kSuccess) return;
  library_ = std::move(library);
}

GpuHealth::~GpuHealth() = default;

GpuFigures GpuHealth::figures() const {
  GpuFigures figures;
  if (!library_) return figures;
  unsigned value = 0;
  if (library_->temperature(gpu_, kOnTheGpu, &value) == kSuccess) figures.temp_c = value;
  if (library_->power(gpu_, &value) == kSuccess) figures.power_w = value / kMilliwatts;
  Utilisation use;
  if (library_->utilisation(gpu_, &use) == kSuccess) {
    figures.utilisation_percent = use.gpu;
    figures.memory_utilisation_percent = use.memory;
  }
  return figures;
}

}  // namespace ddprun
