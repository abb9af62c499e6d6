// NVIDIA's management library on a machine with two GPUs, of which the second reports less.
//
//   FAKE_NVML=driverless   nvmlInit_v2 fails
//   FAKE_NVML=stuck        the query of the temperature never returns
//   FAKE_NVML_NOTES=FIFO   gets one line for each query of the first GPU's
//                          temperature

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include <fcntl.h>
#include <unistd.h>

namespace {

constexpr int kNotSupported = 3;
constexpr int kDriverNotLoaded = 9;
constexpr unsigned kGpus = 2;
constexpr std::uint64_t kMiB = std::uint64_t{1} << 20U;

char g_gpus[kGpus];  // their addresses are the handles

bool is(const char* what) {
  const char* const asked = std::getenv("FAKE_NVML");
  return asked != nullptr && std::string_view(asked) == what;
}

unsigned index_of(void* device) {
  return static_cast<unsigned>(static_cast<char*>(device) - g_gpus);
}

void note() {
  const char* const path = std::getenv("FAKE_NVML_NOTES");
  if (path == nullptr) return;
  const int fifo = ::open(path, O_WRONLY | O_CLOEXEC);
  if (fifo < 0) std::abort();
  if (::write(fifo, "sampled\n", 8) != 8) std::abort();
  ::close(fifo);
}

}  // namespace

extern "C" {
// NOLINTBEGIN(readability-identifier-naming): the names are NVIDIA's

struct FakeMemory {
  unsigned long long total, free, used;
};
struct FakeUtilisation {
  unsigned gpu, memory;
};

int nvmlInit_v2() {
  return is("driverless") ? kDriverNotLoaded : 0;
}

int nvmlShutdown() {
  return 0;
}

const char* nvmlErrorString(int error) {
  return error == kDriverNotLoaded ? "Driver Not Loaded" : "Not Supported";
}

int nvmlDeviceGetCount_v2(unsigned* count) {
  *count = kGpus;
  return 0;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, void** device) {
  *device = &g_gpus[index];
  return 0;
}

// The first is at 1B, the second at 1C.
int nvmlDeviceGetHandleByPciBusId_v2(const char* bus_id, void** device) {
  constexpr int kNotFound = 6;
  const std::string_view bus = bus_id;
  if (bus != "0000:1B:00.0" && bus != "0000:1C:00.0") return kNotFound;
  *device = &g_gpus[bus[6] - 'B'];
  return 0;
}

int nvmlDeviceGetName(void* device, char* name, unsigned size) {
  std::snprintf(name, size, "Fake GPU %c", 'A' + static_cast<char>(index_of(device)));
  return 0;
}

int nvmlDeviceGetMemoryInfo(void* device, FakeMemory* memory) {
  const std::uint64_t used = 1000 + index_of(device);
  *memory = {.total = 81920 * kMiB, .free = (81920 - used) * kMiB, .used = used * kMiB};
  return 0;
}

int nvmlDeviceGetTemperature(void* device, int sensor, unsigned* degrees) {
  if (sensor != 0) return kNotSupported;
  if (index_of(device) == 0) note();
  while (is("stuck")) {
    ::pause();
  }
  *degrees = 41 + index_of(device);
  return 0;
}

int nvmlDeviceGetPowerUsage(void* device, unsigned* milliwatts) {
  if (index_of(device) == 1) return kNotSupported;
  *milliwatts = 123'450;
  return 0;
}

int nvmlDeviceGetUtilizationRates(void* device, FakeUtilisation* use) {
  if (index_of(device) == 1) return kNotSupported;
  *use = {.gpu = 97, .memory = 31};
  return 0;
}

// NOLINTEND(readability-identifier-naming)
}  // extern "C"
