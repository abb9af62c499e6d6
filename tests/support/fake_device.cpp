// A device module for machines without a GPU: it computes on the CPU, but is driven like a GPU, and
// records the calls.
//
//   FAKE_DEVICE=none     there is no device
//   FAKE_DEVICE=broken   it cannot be opened
//   FAKE_DEVICE=old      the module belongs to another build
//   FAKE_DEVICE_NOTES=FILE   one line for each call; rank R writes to FILE.R

#include "trainer/device.hpp"
#include "trainer/device_interface.hpp"
#include "trainer/phase_range.hpp"

#include <torch/torch.h>

#include <cstdlib>
#include <fstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ddprun {
namespace {

std::string variable(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

class FakeDevice final : public Device {
 public:
  explicit FakeDevice(int index) {
    const std::string prefix = variable("FAKE_DEVICE_NOTES");
    if (!prefix.empty()) notes_.open(prefix + variable("RANK"));
    note("open " + std::to_string(index));
  }

  at::Device place() const override { return at::kCPU; }
  void join(c10d::ProcessGroup& group, std::chrono::milliseconds /*timeout*/) override {
    note("join " + std::to_string(group.getSize()));
    note("workspace " + variable("CUBLAS_WORKSPACE_CONFIG"));
    const at::Context& numerics = at::globalContext();
    note(
        std::string("numerics") + (numerics.deterministicAlgorithms() ? " deterministic" : "") +
        (numerics.allowTF32CuBLAS() ? " tf32" : "") +
        (numerics.benchmarkCuDNN() ? " benchmark" : ""));
  }
  void leave() override { note("leave"); }
  bool copies() const override { return true; }
  at::Tensor make_host_tensor(at::IntArrayRef shape) override { return torch::empty(shape); }
  at::Tensor begin_copy(const at::Tensor& host) override {
    note(host.scalar_type() == torch::kInt64 ? "copy labels" : "copy images");
    copies_.emplace_back(host, torch::zeros_like(host));  // completed later, as on a GPU
    return copies_.back().second;
  }
  void await_copies() override {
    note("await");
    for (auto& [host, here] : copies_) {
      here.copy_(host);
    }
    copies_.clear();
  }
  void synchronise() override { note("synchronise"); }
  void begin_capture() override {
    note("begin capture");
    handle_ = at::addThreadLocalCallback(
        at::RecordFunctionCallback(
            [](const at::RecordFunction& function) -> std::unique_ptr<at::ObserverContext> {
              if (!function.isAsync()) names_seen() += std::string(function.name()) + "\n";
              return nullptr;
            })
            .scopes({at::RecordScope::USER_SCOPE}));
  }
  void end_capture() override {
    at::removeCallback(handle_);
    notes_ << names_seen();
    note("end capture");
  }
  std::optional<GpuFigures> figures() override {
    constexpr std::int64_t kMiB = std::int64_t{1} << 20;
    GpuFigures figures;
    figures.allocated_bytes = kMiB;
    figures.reserved_bytes = 2 * kMiB;
    figures.max_allocated_bytes = 3 * kMiB;
    figures.temp_c = 41;
    return figures;
  }

 private:
  static std::string& names_seen() {
    static std::string names;
    return names;
  }

  void note(const std::string& line) { notes_ << line << '\n' << std::flush; }

  std::ofstream notes_;
  std::vector<std::pair<at::Tensor, at::Tensor>> copies_;  // in progress
  at::CallbackHandle handle_ = 0;
};

int count_devices(std::string& problem) {
  constexpr int kDevices = 2;
  problem = "a made-up reason";
  return variable("FAKE_DEVICE") == "none" ? 0 : kDevices;
}

std::unique_ptr<Device> open_device(int index) {
  TORCH_CHECK(variable("FAKE_DEVICE") != "broken", "a made-up fault");
  return std::make_unique<FakeDevice>(index);
}

}  // namespace
}  // namespace ddprun

// NOLINTBEGIN(readability-identifier-naming)
extern "C" {
extern const ddprun::DeviceModule ddprun_device_module;
const ddprun::DeviceModule ddprun_device_module = {
    .interface =
        ddprun::variable("FAKE_DEVICE") == "old" ? "ddprun 0.0.9" : ddprun::kDeviceInterface,
    .count = &ddprun::count_devices,
    .open = &ddprun::open_device};
}
// NOLINTEND(readability-identifier-naming)
