#include "agent/core/memory_cgroup.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ddprun {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(MemoryCgroup, IsOneOfVersion2) {
  EXPECT_THAT(
      oom_files_of("0::/user.slice/job_7\n"),
      ElementsAre(
          "/sys/fs/cgroup/user.slice/job_7/memory.events",
          "/sys/fs/cgroup/unified/user.slice/job_7/memory.events",
          "/sys/fs/cgroup/memory.events"));
}

TEST(MemoryCgroup, OfVersion1BelongsToTheMemoryController) {
  EXPECT_THAT(
      oom_files_of("9:name=systemd:/\n4:hugetlb,memory:/slurm/uid_0/job_7\n3:cpuset:/\n"),
      ElementsAre(
          "/sys/fs/cgroup/memory/slurm/uid_0/job_7/memory.oom_control",
          "/sys/fs/cgroup/memory/memory.oom_control"));
}

TEST(MemoryCgroup, OfAContainerIsItsRoot) {
  EXPECT_EQ(oom_files_of("0::/\n").front(), "/sys/fs/cgroup/memory.events");
}

TEST(MemoryCgroup, IsNotThereWithoutCgroups) {
  EXPECT_THAT(oom_files_of(""), IsEmpty());
  EXPECT_THAT(oom_files_of("garbage\n1:\n"), IsEmpty());
}

TEST(MemoryCgroup, CountsKillsInBothVersions) {
  EXPECT_EQ(oom_kills_in("low 0\nhigh 0\nmax 12\noom 1\noom_kill 3\noom_group_kill 0\n"), 3);
  EXPECT_EQ(oom_kills_in("oom_kill_disable 0\nunder_oom 0\noom_kill 1\n"), 1);
}

TEST(MemoryCgroup, OfAnOldKernelCountsNothing) {
  EXPECT_EQ(oom_kills_in("oom_kill_disable 0\nunder_oom 0\n"), std::nullopt);
  EXPECT_EQ(oom_kills_in("oom_kill many\n"), std::nullopt);
}

}  // namespace
}  // namespace ddprun
