#include "launcher/flags/machine.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include <sched.h>
#include <unistd.h>

namespace ddprun {
namespace {

/// A machine described by files in a separate directory.
class Machine : public testing::Test {
 public:
  Machine(const Machine&) = delete;
  Machine& operator=(const Machine&) = delete;

 protected:
  Machine() = default;
  ~Machine() override { std::filesystem::remove_all(root_); }

  void write(const std::string& path, const std::string& content) {
    std::filesystem::create_directories((root_ / path).parent_path());
    std::ofstream(root_ / path) << content;
  }
  int gpus(const Environment& environment = {}) const { return visible_gpus(environment, root_); }

  std::filesystem::path root_ = std::filesystem::temp_directory_path() /
                                ("ddprun_machine_test_" + std::to_string(::getpid()));
};

TEST_F(Machine, HasTheCpusOfItsAffinity) {
  cpu_set_t before;
  ASSERT_EQ(::sched_getaffinity(0, sizeof before, &before), 0);
  EXPECT_EQ(usable_cpus(root_), CPU_COUNT(&before));
}

TEST_F(Machine, HasNoMoreCpusThanTheSmallestQuotaAboveIt) {
  write("proc/self/cgroup", "0::/job/step\n");
  write("sys/fs/cgroup/job/step/cpu.max", "max 100000\n");
  write("sys/fs/cgroup/job/cpu.max", "150000 100000\n");
  EXPECT_EQ(usable_cpus(root_), 1);
}

TEST_F(Machine, HasOneCpuUnderTheSmallestQuota) {
  write("proc/self/cgroup", "0::/\n");
  write("sys/fs/cgroup/cpu.max", "1000 100000\n");
  EXPECT_EQ(usable_cpus(root_), 1);
}

TEST_F(Machine, CountsNvidiaDevicesAndNotTheirControlFiles) {
  for (const char* const name : {"nvidia0", "nvidia1", "nvidia10", "nvidiactl", "nvidia-uvm"})
    write(std::string("dev/") + name, "");
  EXPECT_EQ(gpus(), 3);
}

TEST_F(Machine, ObeysCudaVisibleDevicesAsCudaDoes) {
  for (const char* const name : {"nvidia0", "nvidia1", "nvidia2", "nvidia3"})
    write(std::string("dev/") + name, "");
  EXPECT_EQ(gpus({{"CUDA_VISIBLE_DEVICES", "0,2"}}), 2);
  EXPECT_EQ(gpus({{"CUDA_VISIBLE_DEVICES", "0,9,1"}}), 1);  // nothing after a bad entry counts
  EXPECT_EQ(gpus({{"CUDA_VISIBLE_DEVICES", "0,-1,1"}}), 1);
  EXPECT_EQ(gpus({{"CUDA_VISIBLE_DEVICES", ""}}), 0);
  EXPECT_EQ(gpus({{"CUDA_VISIBLE_DEVICES", "GPU-1a2b,MIG-3c4d"}}), 2);
}

TEST_F(Machine, CountsAmdDevicesAndNotTheCpusBesideThem) {
  write("sys/class/kfd/kfd/topology/nodes/0/gpu_id", "0\n");
  write("sys/class/kfd/kfd/topology/nodes/1/gpu_id", "51234\n");
  write("sys/class/kfd/kfd/topology/nodes/2/gpu_id", "51235\n");
  EXPECT_EQ(gpus(), 2);
  EXPECT_EQ(gpus({{"HIP_VISIBLE_DEVICES", "1"}}), 1);
}

TEST_F(Machine, HasNoGpuWithoutDeviceFiles) {
  EXPECT_EQ(gpus({{"CUDA_VISIBLE_DEVICES", "0,1"}}), 0);
}

TEST(WantsGpus, WhereTheEnvironmentNamesSome) {
  EXPECT_TRUE(wants_gpus({{"CUDA_VISIBLE_DEVICES", "0"}}));
  EXPECT_TRUE(wants_gpus({{"CUDA_VISIBLE_DEVICES", "GPU-1a2b"}}));
  EXPECT_FALSE(wants_gpus({{"CUDA_VISIBLE_DEVICES", ""}}));
  EXPECT_FALSE(wants_gpus({{"CUDA_VISIBLE_DEVICES", "-1"}}));
}

}  // namespace
}  // namespace ddprun
