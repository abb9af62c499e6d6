#include "agent/nvml_library.hpp"

#include <fmt/format.h>

#include <array>
#include <utility>

#include <dlfcn.h>

namespace ddprun {
namespace {

constexpr const char* kLibrary = "libnvidia-ml.so.1";
constexpr int kSuccess = 0;
constexpr int kOnTheGpu = 0;  // the temperature sensor on the chip
constexpr std::size_t kNameBytesMax = 96;
constexpr double kMilliwatts = 1000.0;

// The library's memory layout.
using Device = void*;
struct Memory {
  unsigned long long total = 0;
  unsigned long long free = 0;
  unsigned long long used = 0;  // includes the driver's reserve
};
struct MemoryWithReserve {
  unsigned version = sizeof(MemoryWithReserve) | (2U << 24U);
  unsigned long long total = 0;
  unsigned long long reserved = 0;
  unsigned long long free = 0;
  unsigned long long used = 0;
};
struct Utilisation {
  unsigned gpu = 0;
  unsigned memory = 0;
};

}  // namespace

/// The functions that we call; each returns 0 or an error.
struct NvmlLibrary::Functions {
  int (*init)() = nullptr;
  int (*shutdown)() = nullptr;
  const char* (*error_string)(int) = nullptr;
  int (*count)(unsigned*) = nullptr;
  int (*device)(unsigned, Device*) = nullptr;
  int (*name)(Device, char*, unsigned) = nullptr;
  int (*memory)(Device, Memory*) = nullptr;
  int (*memory_with_reserve)(Device, MemoryWithReserve*) = nullptr;  // null before driver 510
  int (*temperature)(Device, int, unsigned*) = nullptr;
  int (*power)(Device, unsigned*) = nullptr;
  int (*utilisation)(Device, Utilisation*) = nullptr;

  /// As nvidia-smi shows it: without the driver's reserve, if the library reports that separately.
  std::optional<GpuSample::Memory> memory_of(Device gpu) const {
    MemoryWithReserve better;
    if (memory_with_reserve != nullptr && memory_with_reserve(gpu, &better) == kSuccess) {
      return GpuSample::Memory{.used_bytes = better.used, .total_bytes = better.total};
    }
    Memory plain;
    if (memory(gpu, &plain) != kSuccess) return std::nullopt;
    return GpuSample::Memory{.used_bytes = plain.used, .total_bytes = plain.total};
  }
};

Result<std::unique_ptr<NvmlLibrary>> NvmlLibrary::load() {
  auto functions = std::make_unique<Functions>();
  void* const library = ::dlopen(kLibrary, RTLD_NOW | RTLD_LOCAL);  // never unloaded
  const auto find = [library]<class Function>(Function*& function, const char* name) {
    if (library != nullptr) function = reinterpret_cast<Function*>(::dlsym(library, name));
    return function != nullptr;
  };
  static_cast<void>(find(functions->memory_with_reserve, "nvmlDeviceGetMemoryInfo_v2"));
  const bool has_all = find(functions->init, "nvmlInit_v2") &&
                       find(functions->shutdown, "nvmlShutdown") &&
                       find(functions->error_string, "nvmlErrorString") &&
                       find(functions->count, "nvmlDeviceGetCount_v2") &&
                       find(functions->device, "nvmlDeviceGetHandleByIndex_v2") &&
                       find(functions->name, "nvmlDeviceGetName") &&
                       find(functions->memory, "nvmlDeviceGetMemoryInfo") &&
                       find(functions->temperature, "nvmlDeviceGetTemperature") &&
                       find(functions->power, "nvmlDeviceGetPowerUsage") &&
                       find(functions->utilisation, "nvmlDeviceGetUtilizationRates");
  if (!has_all) {
    const char* const why = ::dlerror();  // NOLINT(concurrency-mt-unsafe): one buffer per thread
    return make_error(Errc::kNotFound, why == nullptr ? kLibrary : why);
  }
  unsigned count = 0;
  int failed = functions->init();
  if (failed == kSuccess) failed = functions->count(&count);
  if (failed != kSuccess) {
    return make_error(
        Errc::kNotFound, fmt::format("{}: {}", kLibrary, functions->error_string(failed)));
  }
  std::vector<Gpu> gpus;
  for (unsigned index = 0; index < count; ++index) {
    Gpu gpu{.device = nullptr, .index = index, .name = {}};
    // A batch system may have hidden it from us.
    if (functions->device(index, &gpu.device) != kSuccess) continue;
    std::array<char, kNameBytesMax> name{};
    if (functions->name(gpu.device, name.data(), name.size() - 1) == kSuccess) {
      gpu.name = name.data();
    }
    gpus.push_back(std::move(gpu));
  }
  if (gpus.empty()) {
    return make_error(Errc::kNotFound, fmt::format("{} sees no GPU", kLibrary));
  }
  return std::unique_ptr<NvmlLibrary>(new NvmlLibrary(std::move(functions), std::move(gpus)));
}

NvmlLibrary::NvmlLibrary(std::unique_ptr<const Functions> functions, std::vector<Gpu> gpus)
    : functions_(std::move(functions)), gpus_(std::move(gpus)) {}

NvmlLibrary::~NvmlLibrary() {
  functions_->shutdown();
}

std::vector<GpuSample> NvmlLibrary::sample() const {
  std::vector<GpuSample> samples;
  for (const Gpu& gpu : gpus_) {
    GpuSample sample{
        .index = gpu.index,
        .name = gpu.name,
        .memory = functions_->memory_of(gpu.device),
        .temperature_c = {},
        .power_w = {},
        .utilisation = {}};
    unsigned value = 0;
    if (functions_->temperature(gpu.device, kOnTheGpu, &value) == kSuccess) {
      sample.temperature_c = value;
    }
    if (functions_->power(gpu.device, &value) == kSuccess) sample.power_w = value / kMilliwatts;
    Utilisation use;
    if (functions_->utilisation(gpu.device, &use) == kSuccess) {
      sample.utilisation = {.gpu_percent = use.gpu, .memory_percent = use.memory};
    }
    samples.push_back(std::move(sample));
  }
  return samples;
}

}  // namespace ddprun
