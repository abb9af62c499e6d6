// --numa-binding on machines described by files.

#include "launcher/flags/numa_topology.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <vector>

#include <unistd.h>

namespace ddprun {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using Cpus = std::set<int>;

constexpr int kNodes = 4;

Cpus range(int first, int last) {
  Cpus cpus;
  for (int cpu = first; cpu <= last; ++cpu) {
    cpus.insert(cpu);
  }
  return cpus;
}

const Cpus kAll = range(0, 31);

/// Two sockets of two nodes. Each node has 4 cores of two threads (CPUs 0-15 are the first threads,
/// 16-31 the second), and two caches of level 3.
class Numa : public testing::Test {
 public:
  Numa(const Numa&) = delete;
  Numa& operator=(const Numa&) = delete;

 protected:
  Numa() {
    write("node/online", "0-3\n");
    for (int node = 0; node < kNodes; ++node) {
      const int first = 4 * node;
      write(
          fmt::format("node/node{}/cpulist", node),
          fmt::format("{}-{},{}-{}\n", first, first + 3, first + 16, first + 19));
    }
    for (int cpu = 0; cpu < 32; ++cpu) {
      const int core = cpu % 16;
      const std::string directory = fmt::format("cpu/cpu{}/", cpu);
      write(directory + "topology/physical_package_id", fmt::format("{}\n", core / 8));
      write(directory + "topology/thread_siblings_list", fmt::format("{},{}\n", core, core + 16));
      add_cache(directory + "cache/index0/", "Data", 1, fmt::format("{},{}", core, core + 16));
      add_cache(directory + "cache/index1/", "Instruction", 1, "0-31");
      const int pair = core / 2 * 2;
      add_cache(
          directory + "cache/index3/",
          "Unified",
          3,
          fmt::format("{}-{},{}-{}", pair, pair + 1, pair + 16, pair + 17));
    }
  }
  ~Numa() override { std::filesystem::remove_all(root_); }

  void write(const std::string& path, const std::string& content) {
    write_file("sys/devices/system/" + path, content);
  }

  void write_file(const std::string& path, const std::string& content) {
    std::filesystem::create_directories((root_ / path).parent_path());
    std::ofstream(root_ / path) << content;
  }

  void add_cache(const std::string& path, const char* type, int level, const std::string& cpus) {
    write(path + "type", fmt::format("{}\n", type));
    write(path + "level", fmt::format("{}\n", level));
    write(path + "shared_cpu_list", cpus + "\n");
  }

  void add_gpu(int minor, const std::string& address, int node) {
    write_file(
        fmt::format("proc/driver/nvidia/gpus/{}/information", address),
        fmt::format("Model: \t\t H100\nGPU UUID: \t GPU-{0}{0}\nDevice Minor: \t {0}\n", minor));
    write_file(fmt::format("dev/nvidia{}", minor), "");
    write_file(fmt::format("sys/bus/pci/devices/{}/numa_node", address), fmt::format("{}\n", node));
  }

  NumaTopology topology(NumaBinding binding, const Cpus& allowed = kAll) const {
    return read_numa_topology(binding, allowed, root_).value();
  }

  /// The CPUs of workers that have no GPUs.
  std::vector<Cpus> bound(NumaBinding binding, int workers, const Cpus& allowed = kAll) const {
    const auto nodes = topology(binding, allowed);
    return bind_to_numa(nodes, binding, spread_over_nodes(nodes, workers), workers).value();
  }

  std::string complaint(NumaBinding binding, const std::vector<int>& homes, int workers) const {
    const auto sets = bind_to_numa(topology(binding), binding, homes, workers);
    return sets ? "" : sets.error().detail;
  }

  Result<std::vector<int>> gpu_nodes(const Environment& environment = {}) const {
    return numa_nodes_of_gpus(topology(NumaBinding::kNode), environment, root_);
  }

  std::filesystem::path root_ =
      std::filesystem::temp_directory_path() / ("ddprun_numa_test_" + std::to_string(::getpid()));
};

Cpus both_threads(int first, int last) {
  Cpus cpus = range(first, last);
  cpus.merge(range(first + 16, last + 16));
  return cpus;
}

TEST(CpuList, IsReadAsTheKernelWritesIt) {
  EXPECT_EQ(parse_cpu_list("0-2,8,10-11\n").value(), (Cpus{0, 1, 2, 8, 10, 11}));
  EXPECT_THAT(parse_cpu_list("\n").value(), IsEmpty());
  for (const char* const wrong : {"a", "1-", "3-1", "-1", "0,,1", "0-99999"}) {
    EXPECT_TRUE(parse_cpu_list(wrong).has_error()) << wrong;
  }
}

TEST_F(Numa, BindsWorkersToTheNodeOfTheirGpu) {
  const auto nodes = topology(NumaBinding::kNode);
  const auto cpus = bind_to_numa(nodes, NumaBinding::kNode, {3, 0, 0}, 2).value();
  EXPECT_THAT(cpus, ElementsAre(both_threads(12, 15), both_threads(0, 3)));
}

TEST_F(Numa, SpreadsWorkersWithoutGpusOverTheNodesWithNeighboursTogether) {
  const auto nodes = topology(NumaBinding::kNode);
  EXPECT_THAT(spread_over_nodes(nodes, 8), ElementsAre(0, 0, 1, 1, 2, 2, 3, 3));
  EXPECT_THAT(spread_over_nodes(nodes, 2), ElementsAre(0, 2));
  EXPECT_THAT(spread_over_nodes(nodes, 5), ElementsAre(0, 0, 1, 2, 3));
}

TEST_F(Numa, BindsToAllNodesOfTheSocket) {
  EXPECT_THAT(bound(NumaBinding::kSocket, 2), ElementsAre(both_threads(0, 7), both_threads(8, 15)));
}

TEST_F(Numa, SharesOutPhysicalCoresWithBothTheirThreads) {
  const auto nodes = topology(NumaBinding::kExclusive);
  // Four cores for three GPUs of the node, the last of which is unused.
  const auto cpus = bind_to_numa(nodes, NumaBinding::kExclusive, {1, 1, 1}, 2).value();
  EXPECT_THAT(cpus, ElementsAre(Cpus({4, 5, 20, 21}), Cpus({6, 22})));
}

TEST_F(Numa, RefusesToShareFewerCoresThanThereAreWorkers) {
  EXPECT_THAT(
      complaint(NumaBinding::kExclusive, {0, 0, 0, 0, 0}, 1),
      HasSubstr("NUMA node 0 has only 4 usable physical cores for 5 workers or GPUs"));
}

TEST_F(Numa, GivesEachWorkerACoreComplexInTurn) {
  const auto cpus = bound(NumaBinding::kCoreComplex, 12);
  EXPECT_EQ(cpus[0], (Cpus{0, 1, 16, 17}));
  EXPECT_EQ(cpus[1], (Cpus{2, 3, 18, 19}));
  EXPECT_EQ(cpus[2], cpus[0]);
  EXPECT_EQ(cpus[3], (Cpus{4, 5, 20, 21}));
}

TEST_F(Numa, TakesTheCoreComplexWithTheMostUsableCpusFirst) {
  EXPECT_THAT(bound(NumaBinding::kCoreComplex, 1, {0, 2, 3}), ElementsAre(Cpus({2, 3})));
}

TEST_F(Numa, UsesNoCpuThatTheProcessMayNot) {
  EXPECT_THAT(bound(NumaBinding::kNode, 2, range(2, 5)), ElementsAre(range(2, 3), range(4, 5)));
  EXPECT_THAT(bound(NumaBinding::kSocket, 1, range(2, 5)), ElementsAre(range(2, 5)));
}

TEST_F(Numa, RefusesAGpuWhoseNodeIsNotOurs) {
  const auto nodes = topology(NumaBinding::kNode, range(0, 3));
  const auto sets = bind_to_numa(nodes, NumaBinding::kNode, {0, 2}, 2);
  ASSERT_TRUE(sets.has_error());
  EXPECT_THAT(sets.error().detail, HasSubstr("GPU of local rank 1 is on NUMA node 2"));
}

TEST_F(Numa, SaysWhichFileIsMissing) {
  std::filesystem::remove_all(root_ / "sys/devices/system/cpu/cpu0/cache");
  const auto caches = read_numa_topology(NumaBinding::kCoreComplex, kAll, root_);
  ASSERT_TRUE(caches.has_error());
  EXPECT_THAT(caches.error().detail, HasSubstr("cpu0/cache"));
  EXPECT_TRUE(read_numa_topology(NumaBinding::kNode, kAll, root_).has_value());
  std::filesystem::remove_all(root_ / "sys/devices/system/node");
  const auto nodes = read_numa_topology(NumaBinding::kNode, kAll, root_);
  ASSERT_TRUE(nodes.has_error());
  EXPECT_THAT(nodes.error().detail, HasSubstr("sys/devices/system/node/online"));
}

TEST_F(Numa, CountsGpusByTheirAddressesAndLeavesOutThoseWithoutADevice) {
  EXPECT_THAT(gpu_nodes().value(), IsEmpty());
  add_gpu(0, "0000:c1:00.0", 3);
  add_gpu(1, "0000:3B:00.0", 0);
  add_gpu(2, "0000:81:00.0", 2);
  std::filesystem::rename(
      root_ / "sys/bus/pci/devices/0000:3B:00.0", root_ / "sys/bus/pci/devices/0000:3b:00.0");
  EXPECT_THAT(gpu_nodes().value(), ElementsAre(0, 2, 3));
  std::filesystem::remove(root_ / "dev/nvidia2");
  EXPECT_THAT(gpu_nodes().value(), ElementsAre(0, 3));
}

TEST_F(Numa, ObeysCudaVisibleDevices) {
  add_gpu(0, "0000:3b:00.0", 0);
  add_gpu(1, "0000:81:00.0", 2);
  EXPECT_THAT(gpu_nodes({{"CUDA_VISIBLE_DEVICES", "1,0"}}).value(), ElementsAre(2, 0));
  EXPECT_THAT(gpu_nodes({{"CUDA_VISIBLE_DEVICES", "GPU-11"}}).value(), ElementsAre(2));
  EXPECT_THAT(gpu_nodes({{"CUDA_VISIBLE_DEVICES", ""}}).value(), IsEmpty());
  EXPECT_THAT(
      gpu_nodes({{"CUDA_VISIBLE_DEVICES", "MIG-4"}}).error().detail,
      HasSubstr("cannot tell which GPU 'MIG-4' in CUDA_VISIBLE_DEVICES is"));
}

TEST_F(Numa, RefusesAGpuOfAnUnknownNodeUnlessThereIsOnlyOne) {
  add_gpu(0, "0000:3b:00.0", -1);
  EXPECT_THAT(gpu_nodes().error().detail, HasSubstr("NUMA node of GPU 0000:3b:00.0 is not known"));
  const auto one = topology(NumaBinding::kNode, range(4, 7));
  EXPECT_THAT(numa_nodes_of_gpus(one, {}, root_).value(), ElementsAre(1));
}

}  // namespace
}  // namespace ddprun
