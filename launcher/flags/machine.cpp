#include "launcher/flags/machine.hpp"

#include "base/file.hpp"
#include "base/parse.hpp"
#include "slurm/core/allocation.hpp"

#include <algorithm>
#include <memory>
#include <optional>
#include <string_view>

#include <sched.h>

namespace ddprun {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kProcFileBytesMax = std::size_t{64} * 1024;
constexpr int kCpusMax = 16'384;

/// The CPUs that a line of cpu.max allows, "QUOTA PERIOD" in microseconds; none for "max".
std::optional<int> quota_of(std::string_view line) {
  const auto pieces = split(trim(line), ' ');
  const auto quota = parse_int<long>(pieces.front());
  const auto period = pieces.size() == 2 ? parse_int<long>(pieces[1]) : std::nullopt;
  if (!quota || !period || *period <= 0) return std::nullopt;
  return static_cast<int>(std::max(1L, *quota / *period));
}

/// The v2 cgroup of this process, from the line "0::/path".
std::string cgroup_path(const fs::path& root) {
  const auto lines = read_file(root / "proc/self/cgroup", kProcFileBytesMax);
  if (!lines) return {};
  for (const std::string_view line : split(*lines, '\n')) {
    if (line.starts_with("0::/")) return std::string(line.substr(4));
  }
  return {};
}

int count_names(const fs::path& directory, std::string_view prefix) {
  std::error_code error;
  int count = 0;
  for (const auto& entry : fs::directory_iterator(directory, error)) {
    const std::string name = entry.path().filename();
    if (!name.starts_with(prefix)) continue;
    if (parse_int<unsigned>(std::string_view(name).substr(prefix.size()))) ++count;
  }
  return count;
}

int visible(const Environment& environment, const char* variable, int devices) {
  const auto found = environment.find(variable);
  return found == environment.end() ? devices : visible_devices(found->second, devices);
}

/// Nodes of the KFD topology that are GPUs: CPU nodes have gpu_id 0.
int amd_gpus(const fs::path& root) {
  std::error_code error;
  int count = 0;
  for (const auto& node :
       fs::directory_iterator(root / "sys/class/kfd/kfd/topology/nodes", error)) {
    const auto id = read_file(node.path() / "gpu_id", kProcFileBytesMax);
    if (id && trim(*id) != "0" && !trim(*id).empty()) ++count;
  }
  return count;
}

}  // namespace

std::set<int> affine_cpus() {
  // A fixed cpu_set_t holds 1,024 CPUs, and the kernel refuses one that is too small.
  const std::unique_ptr<cpu_set_t, void (*)(cpu_set_t*)> set(
      CPU_ALLOC(kCpusMax), [](cpu_set_t* allocated) { CPU_FREE(allocated); });
  const std::size_t bytes = CPU_ALLOC_SIZE(kCpusMax);
  std::set<int> cpus;
  if (!set || ::sched_getaffinity(0, bytes, set.get()) != 0) return cpus;
  for (int cpu = 0; cpu < kCpusMax; ++cpu) {
    if (CPU_ISSET_S(static_cast<std::size_t>(cpu), bytes, set.get())) cpus.insert(cpu);
  }
  return cpus;
}

int usable_cpus(const fs::path& root) {
  int cpus = std::max(1, static_cast<int>(affine_cpus().size()));
  fs::path group = cgroup_path(root);
  for (;;) {  // every parent group may have a quota of its own
    const auto line = read_file(root / "sys/fs/cgroup" / group / "cpu.max", kProcFileBytesMax);
    if (line) cpus = std::min(cpus, quota_of(*line).value_or(cpus));
    if (group.empty()) return std::max(1, cpus);
    group = group.parent_path();
  }
}

int visible_gpus(const Environment& environment, const fs::path& root) {
  const int nvidia = count_names(root / "dev", "nvidia");
  if (nvidia > 0) return visible(environment, "CUDA_VISIBLE_DEVICES", nvidia);
  const int amd = amd_gpus(root);
  const int by_runtime = visible(environment, "ROCR_VISIBLE_DEVICES", amd);
  return visible(environment, "HIP_VISIBLE_DEVICES", by_runtime);
}

bool wants_gpus(const Environment& environment) {
  const auto named = environment.find("CUDA_VISIBLE_DEVICES");
  return (named == environment.end() ? visible_gpus(environment) : visible_devices(named->second)) >
         0;
}

}  // namespace ddprun
