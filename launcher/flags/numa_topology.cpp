#include "launcher/flags/numa_topology.hpp"

#include "base/file.hpp"
#include "base/format_error.hpp"
#include "base/parse.hpp"
#include "base/worker_contract.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>

namespace ddprun {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kFileBytesMax = std::size_t{64} * 1024;

Error unknown(const fs::path& path) {
  return invalid_argument("the kernel does not report it: {} does not exist", path.string());
}

Result<std::set<int>> read_cpus(const fs::path& path) {
  const auto text = read_file(path, kFileBytesMax);
  if (!text) return unknown(path);
  auto cpus = parse_cpu_list(*text);
  if (cpus) return cpus;
  return invalid_argument("{}: {}", path.string(), cpus.error().detail);
}

std::optional<int> read_number(const fs::path& path) {
  const auto text = read_file(path, kFileBytesMax);
  return text ? parse_int<int>(trim(*text)) : std::nullopt;
}

Result<int> lowest_of(const fs::path& path, int cpu) {
  const auto cpus = read_cpus(path);
  if (!cpus) return cpus.error();
  return cpus->empty() ? cpu : *cpus->begin();
}

/// The lowest CPU that shares the data cache of the highest level with `cpu`.
Result<int> lowest_under_last_cache(const fs::path& caches, int cpu) {
  std::error_code error;
  fs::path last;
  int highest = 0;
  for (const auto& cache : fs::directory_iterator(caches, error)) {
    const auto type = read_file(cache.path() / "type", kFileBytesMax);
    const int level = read_number(cache.path() / "level").value_or(0);
    if (!type || trim(*type) == "Instruction" || level <= highest) continue;
    highest = level;
    last = cache.path();
  }
  if (last.empty()) return unknown(caches / "index*/level");
  return lowest_of(last / "shared_cpu_list", cpu);
}

Result<NumaCpu> read_cpu(NumaBinding binding, int number, const fs::path& directory) {
  NumaCpu cpu{.number = number};
  const fs::path topology = directory / "topology";
  if (binding == NumaBinding::kSocket) {
    const auto socket = read_number(topology / "physical_package_id");
    if (!socket) return unknown(topology / "physical_package_id");
    cpu.socket = *socket;
  }
  Result<int> lowest = 0;
  if (binding == NumaBinding::kExclusive) {
    lowest = lowest_of(topology / "thread_siblings_list", number);
    if (lowest) cpu.core = *lowest;
  }
  if (binding == NumaBinding::kCoreComplex) {
    lowest = lowest_under_last_cache(directory / "cache", number);
    if (lowest) cpu.cache = *lowest;
  }
  if (!lowest) return lowest.error();
  return cpu;
}

/// What the driver reports about one GPU.
struct Gpu {
  std::string address;  // "0000:3b:00.0"
  std::string uuid;     // "GPU-…"
};

/// The value in a line such as "Device Minor:       3"; empty if there is no such line.
std::string_view field(std::string_view information, std::string_view name) {
  for (const std::string_view line : split(information, '\n')) {
    if (line.starts_with(name)) return trim(line.substr(std::min(line.size(), name.size() + 1)));
  }
  return {};
}

/// GPUs with a device file, sorted by address: a container may have only some of the node's GPUs.
std::vector<Gpu> gpus_of(const fs::path& root) {
  std::vector<Gpu> gpus;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(root / "proc/driver/nvidia/gpus", error)) {
    const auto information = read_file(entry.path() / "information", kFileBytesMax);
    if (!information) continue;
    const std::string device = fmt::format("nvidia{}", field(*information, "Device Minor"));
    if (!fs::exists(root / "dev" / device, error)) continue;
    std::string address = entry.path().filename();
    std::ranges::transform(address, address.begin(), [](char byte) {
      return byte >= 'A' && byte <= 'F' ? static_cast<char>(byte - 'A' + 'a') : byte;
    });
    gpus.push_back(
        {.address = std::move(address), .uuid = std::string(field(*information, "GPU UUID"))});
  }
  std::ranges::sort(gpus, {}, &Gpu::address);
  return gpus;
}

/// As CUDA reads its variable: up to the first invalid entry.
Result<std::vector<Gpu>> visible_of(const std::vector<Gpu>& gpus, const std::string& devices) {
  std::vector<Gpu> visible;
  for (const std::string_view piece : split(devices, ',')) {
    const std::string_view id = trim(piece);
    const auto number = parse_int<int>(id);
    if (id.empty() || (number && (*number < 0 || *number >= std::ssize(gpus)))) break;
    const auto named =
        std::ranges::find_if(gpus, [id](const Gpu& gpu) { return gpu.uuid.starts_with(id); });
    if (!number && named == gpus.end()) {
      return invalid_argument(
          "cannot tell which GPU '{}' in CUDA_VISIBLE_DEVICES is; give numbers or GPU-…", id);
    }
    visible.push_back(number ? gpus[static_cast<std::size_t>(*number)] : *named);
  }
  return visible;
}

}  // namespace

Result<NumaTopology> read_numa_topology(
    NumaBinding binding, const std::set<int>& allowed, const fs::path& root) {
  const fs::path system = root / "sys/devices/system";
  const auto numbers = read_cpus(system / "node/online");
  if (!numbers) return numbers.error();
  NumaTopology topology;
  for (const int number : *numbers) {
    const auto cpus = read_cpus(system / fmt::format("node/node{}/cpulist", number));
    if (!cpus) return cpus.error();
    NumaNode node{.number = number, .cpus = {}};
    for (const int cpu : *cpus) {
      if (!allowed.contains(cpu)) continue;
      const auto about = read_cpu(binding, cpu, system / fmt::format("cpu/cpu{}", cpu));
      if (!about) return about.error();
      node.cpus.push_back(*about);
    }
    if (!node.cpus.empty()) topology.push_back(std::move(node));
  }
  if (topology.empty()) {
    return invalid_argument("no NUMA node has a CPU that this process may use");
  }
  return topology;
}

Result<std::vector<int>> numa_nodes_of_gpus(
    const NumaTopology& topology, const Environment& environment, const fs::path& root) {
  Result<std::vector<Gpu>> gpus = gpus_of(root);
  const auto devices = environment.find(contract::kCudaVisibleDevices);
  if (devices != environment.end() && !gpus->empty()) gpus = visible_of(*gpus, devices->second);
  if (!gpus) return gpus.error();
  std::vector<int> nodes;
  for (const Gpu& gpu : *gpus) {
    const fs::path path = root / "sys/bus/pci/devices" / gpu.address / "numa_node";
    int node = read_number(path).value_or(-1);
    // If there is only one NUMA node, the kernel often reports none.
    if (node < 0 && topology.size() == 1) node = topology.front().number;
    if (node < 0) {
      return invalid_argument(
          "the NUMA node of GPU {} is not known ({})", gpu.address, path.string());
    }
    nodes.push_back(node);
  }
  return nodes;
}

}  // namespace ddprun
