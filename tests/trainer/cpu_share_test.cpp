#include "trainer/core/cpu_share.hpp"

#include "tests/slurm/recorded.hpp"
#include "trainer/core/worker_place.hpp"

#include <gtest/gtest.h>

namespace ddprun {
namespace {

using testing::recorded;

CpuShare share_of(Environment variables) {
  const FilledEnvironment filled = fill_environment(std::move(variables)).value();
  return cpu_share(filled.variables, parse_worker_place(filled).value().local_world);
}

Environment with(Environment environment, const Environment& more) {
  for (const auto& [name, value] : more) {
    environment[name] = value;
  }
  return environment;
}

/// The environment of the second of two ranks that ddprun and torchrun forked in one task.
const Environment kForked = {
    {"TORCHELASTIC_RUN_ID", "6"},
    {"RANK", "3"},
    {"WORLD_SIZE", "4"},
    {"LOCAL_RANK", "1"},
    {"LOCAL_WORLD_SIZE", "2"},
    {"MASTER_ADDR", "node0"},
    {"MASTER_PORT", "10006"}};

TEST(CpuShare, IsAllOfTheTasksWhereTheRankIsTheTask) {
  // Four tasks of 2 CPUs on each node.
  EXPECT_EQ(share_of(recorded("tasks_share_nodes")).of_slurm, 2);
  EXPECT_EQ(
      share_of({{"SLURM_PROCID", "1"},
                {"SLURM_NTASKS", "2"},
                {"SLURM_LOCALID", "1"},
                {"SLURM_CPUS_PER_TASK", "6"},
                {"MASTER_ADDR", "here"}})
          .of_slurm,
      6);
}

TEST(CpuShare, IsAllOfTheTasksWhereAScriptHasSetTheRankToItsNumber) {
  const Environment by_script = {
      {"RANK", "5"},
      {"WORLD_SIZE", "8"},
      {"LOCAL_RANK", "1"},
      {"LOCAL_WORLD_SIZE", "4"},
      {"MASTER_ADDR", "node0"},
      {"MASTER_PORT", "10006"}};
  EXPECT_EQ(share_of(with(recorded("tasks_share_nodes"), by_script)).of_slurm, 2);
}

TEST(CpuShare, IsAPartOfTheTasksWhereALauncherForkedTheRanksInIt) {
  const Environment task = with(recorded("one_task_per_node"), {{"SLURM_CPUS_PER_TASK", "8"}});
  EXPECT_EQ(share_of(with(task, kForked)).of_slurm, 4);
  // By its variables alone the rank could be the task.
  EXPECT_EQ(share_of(with(task, with(kForked, {{"RANK", "1"}, {"WORLD_SIZE", "2"}}))).of_slurm, 4);
  const Environment forked_by_mpi = {
      {"OMPI_COMM_WORLD_RANK", "3"},
      {"OMPI_COMM_WORLD_SIZE", "4"},
      {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
      {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
      {"MASTER_ADDR", "node0"}};
  EXPECT_EQ(share_of(with(task, forked_by_mpi)).of_slurm, 4);
  EXPECT_EQ(share_of(with(task, with(kForked, {{"SLURM_CPUS_PER_TASK", "1"}}))).of_slurm, 1);
}

TEST(CpuShare, TakesSlurmsNumberWhereItIsOne) {
  EXPECT_EQ(share_of({{"SLURM_CPUS_PER_TASK", "5"}}).of_slurm, 5);
  EXPECT_EQ(share_of({{"SLURM_CPUS_PER_TASK", "0"}}).of_slurm, std::nullopt);
  EXPECT_EQ(share_of({{"SLURM_CPUS_PER_TASK", "many"}}).of_slurm, std::nullopt);
}

TEST(CpuShare, HasTheMaskToItselfWhereSrunHasBoundTheTask) {
  Environment task = recorded("tasks_share_nodes");
  task.erase("SLURM_CPUS_PER_TASK");
  EXPECT_EQ(share_of(task).mask_ranks, 4);
  EXPECT_EQ(share_of(with(task, {{"SLURM_CPU_BIND_TYPE", "none"}})).mask_ranks, 4);
  const Environment bound = with(task, {{"SLURM_CPU_BIND_TYPE", "mask_cpu:"}});
  EXPECT_EQ(share_of(bound).mask_ranks, 1);
  EXPECT_EQ(share_of(with(bound, kForked)).mask_ranks, 2);
}

TEST(DefaultDataWorkers, AreTheTasksCpusBeforeTheMask) {
  EXPECT_EQ(default_data_workers({.of_slurm = 6, .mask_ranks = 2}, 2), 6);
  EXPECT_EQ(default_data_workers({.of_slurm = {}, .mask_ranks = 1}, 8), 8);
}

TEST(DefaultDataWorkers, AreSharedOutAndNeverNone) {
  EXPECT_EQ(default_data_workers({.of_slurm = {}, .mask_ranks = 3}, 8), 2);
  EXPECT_EQ(default_data_workers({.of_slurm = {}, .mask_ranks = 4}, 1), 1);
}

}  // namespace
}  // namespace ddprun
