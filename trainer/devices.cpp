#include "trainer/devices.hpp"

#include "base/standard_streams.hpp"
#include "trainer/device_interface.hpp"

#include <ATen/ops/empty.h>
#include <fmt/format.h>

#include <cstdlib>
#include <exception>
#include <filesystem>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include <dlfcn.h>

namespace ddprun {
namespace {

constexpr char kModuleVariable[] = "DDPRUN_CUDA_MODULE";
constexpr char kModuleFile[] = "ddprun_cuda.so";

class Processor final : public Device {
 public:
  at::Device place() const override { return at::kCPU; }
  void join(c10d::ProcessGroup& /*group*/, std::chrono::milliseconds /*timeout*/) override {}
  void leave() override {}
  bool copies() const override { return false; }
  at::Tensor make_host_tensor(at::IntArrayRef shape) override {
    return at::empty(shape, at::kFloat);
  }
  at::Tensor begin_copy(const at::Tensor& host) override { return host; }
  void await_copies() override {}
  void synchronise() override {}
  void begin_capture() override {}
  void end_capture() override {}
  std::optional<GpuFigures> figures() override { return std::nullopt; }
};

/// Where the module of an installed program may be, the likeliest place first.
std::vector<std::filesystem::path> places_of_module() {
  std::error_code error;
  const auto program = std::filesystem::read_symlink("/proc/self/exe", error);
  if (error) return {};
  const auto directory = program.parent_path();
  return {directory / kModuleFile, directory / DDPRUN_MODULE_DIR / kModuleFile};
}

/// dlopen's text for the last failure.
std::string last_problem() {
  const char* const text = ::dlerror();  // NOLINT(concurrency-mt-unsafe): each thread has its own
  return text == nullptr ? "unknown" : text;
}

bool is_module_named() {
  const char* const named = std::getenv(kModuleVariable);
  return named != nullptr && *named != '\0';
}

/// Checks the driver's files first: a module loads all of CUDA, which takes a second and some
/// hundred megabytes of memory.
bool may_have_gpu() {
  const char* const visible = std::getenv("CUDA_VISIBLE_DEVICES");
  if (visible != nullptr && *visible == '\0') return false;
  if (is_module_named()) return true;
  std::error_code error;
  return std::filesystem::exists("/dev/nvidiactl", error) ||
         std::filesystem::exists("/dev/dxg", error);  // within WSL
}

/// If `path` has no directory, the dynamic linker searches its usual directories.
Result<const DeviceModule*> open_module_at(const std::filesystem::path& path) {
  void* const library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);  // never closed
  if (library == nullptr) return make_error(Errc::kNotFound, last_problem());
  const auto* const module =
      static_cast<const DeviceModule*>(::dlsym(library, kDeviceModuleSymbol));
  if (module == nullptr) return make_error(Errc::kNotFound, last_problem());
  if (std::string_view(module->interface) == kDeviceInterface) return module;
  return make_error(
      Errc::kNotFound,
      fmt::format(
          "{} is of {}, but this program is of {}; build and install both together",
          path.string(),
          module->interface,
          kDeviceInterface));
}

Result<const DeviceModule*> open_module() {
  const bool is_named = is_module_named();
  const auto places = is_named
                          ? std::vector{std::filesystem::absolute(std::getenv(kModuleVariable))}
                          : places_of_module();
  for (const auto& path : places) {
    std::error_code error;
    if (std::filesystem::exists(path, error)) return open_module_at(path);
  }
  const std::string first = places.empty() ? kModuleFile : places.front().string();
  std::string why;
  if (!is_named) {  // beside the library, as find_package(ddprun) tells the linker
    const auto module = open_module_at(kModuleFile);
    if (module) return module;
    why = fmt::format(" ({})", module.error().detail);
  }
  return make_error(
      Errc::kNotFound,
      fmt::format(
          "there is no {}{}; build it with -DDDPRUN_CUDA=ON, or set {} to it",
          first,
          why,
          kModuleVariable));
}

Result<std::unique_ptr<Device>> open_gpu(const WorkerPlace& place) {
  const auto module = open_module();
  if (!module) return module.error();
  std::string problem;
  const int visible = (*module)->count(problem);
  if (visible < 1) {
    return make_error(
        Errc::kNotFound,
        fmt::format("this process sees no GPU ({}); check nvidia-smi on this node", problem));
  }
  const auto index = choose_gpu(
      {.local_rank = place.local_rank,
       .local_world = place.local_world,
       .sees_own = std::getenv("CUDA_VISIBLE_DEVICES") != nullptr},
      visible);
  if (!index) return index.error();
  try {
    return (*module)->open(*index);
  } catch (const std::exception& error) {
    const std::string what = error.what();
    return make_error(
        Errc::kNotFound, fmt::format("GPU {}: {}", *index, what.substr(0, what.find('\n'))));
  }
}

}  // namespace

Result<OpenedDevice> open_device(DeviceKind wanted, const WorkerPlace& place) {
  const bool is_auto = wanted == DeviceKind::kAuto;
  if (wanted == DeviceKind::kCuda || (is_auto && may_have_gpu())) {
    auto gpu = open_gpu(place);
    if (gpu) return OpenedDevice{.kind = DeviceKind::kCuda, .device = *std::move(gpu)};
    if (!is_auto) return with_context("--device cuda", gpu.error());
    if (place.local_rank == 0) {
      write_stderr(fmt::format("ddptrain: training on the CPU: {}\n", gpu.error().detail));
    }
  }
  return OpenedDevice{.kind = DeviceKind::kCpu, .device = std::make_unique<Processor>()};
}

}  // namespace ddprun
