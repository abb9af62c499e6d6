#include "agent/core/worker_environment.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

namespace ddprun {
namespace {

using testing::Contains;
using testing::Each;
using testing::IsSupersetOf;
using testing::Not;
using testing::StartsWith;
using testing::UnorderedElementsAre;

LaunchPlan plan_of(int workers) {
  LaunchPlan plan;
  plan.run_id = "job7";
  plan.role = "trainer";
  plan.workers = workers;
  plan.max_restarts = 3;
  plan.signals_text = "SIGTERM,SIGINT";
  plan.usable_cpus = 5;
  return plan;
}

WorkerPlace place_of(int rank, int world) {
  WorkerPlace place;
  place.local_rank = rank;
  place.round.round = {.term = 1, .number = 1};
  place.round.place.world_size = world;
  place.round.master = {.host = "127.0.0.1", .port = 29'400};
  place.round.hosts = "n1";
  place.error_file = "/logs/error.json";
  return place;
}

TEST(WorkerEnvironment, DoesNotTellTheSecret) {
  const auto environment =
      worker_environment(plan_of(1), place_of(0, 1), {"DDPRUN_SECRET=0123456789abcdef", "MINE=1"});
  EXPECT_THAT(*environment, Contains("MINE=1"));
  EXPECT_THAT(*environment, Each(Not(StartsWith("DDPRUN_SECRET"))));
}

TEST(WorkerEnvironment, IsTheCompleteListOfTheContract) {
  const auto environment = worker_environment(plan_of(2), place_of(1, 2), {});
  EXPECT_THAT(
      *environment,
      UnorderedElementsAre(
          "RANK=1",
          "WORLD_SIZE=2",
          "LOCAL_RANK=1",
          "LOCAL_WORLD_SIZE=2",
          "GROUP_RANK=0",
          "GROUP_WORLD_SIZE=1",
          "ROLE_NAME=trainer",
          "ROLE_RANK=1",
          "ROLE_WORLD_SIZE=2",
          "MASTER_ADDR=127.0.0.1",
          "MASTER_PORT=29400",
          "TORCHELASTIC_USE_AGENT_STORE=True",
          "TORCHELASTIC_RUN_ID=job7",
          "TORCHELASTIC_RESTART_COUNT=0",
          "TORCHELASTIC_MAX_RESTARTS=3",
          "TORCHELASTIC_ERROR_FILE=/logs/error.json",
          "TORCHELASTIC_SIGNALS_TO_HANDLE=SIGTERM,SIGINT",
          "TORCH_NCCL_ASYNC_ERROR_HANDLING=1",
          "OMP_NUM_THREADS=2",
          "DDPRUN_NODES=n1",
          "DDPRUN_TERM=1",
          "DDPRUN_GENERATION=1",
          "DDPRUN_ROUND=1"));
}

// The list was cut without a sign of it.
TEST(WorkerEnvironment, SaysHowManyNodesTheListDoesNotName) {
  WorkerPlace place = place_of(0, 4);
  place.round.place.group_size = 4;
  place.round.hosts = "n0,n1";
  EXPECT_THAT(*worker_environment(plan_of(1), place, {}), Contains("DDPRUN_NODES=n0,n1,+2"));
  place.round.hosts = "n0,n1,n2,n3";
  EXPECT_THAT(*worker_environment(plan_of(1), place, {}), Contains("DDPRUN_NODES=n0,n1,n2,n3"));
}

TEST(WorkerEnvironment, NamesTheInterfaceUnlessSomebodyDid) {
  WorkerPlace place = place_of(0, 2);
  place.interface = "eth0";
  EXPECT_THAT(
      *worker_environment(plan_of(1), place, {}),
      IsSupersetOf({"GLOO_SOCKET_IFNAME=eth0", "NCCL_SOCKET_IFNAME==eth0"}));
  const auto chosen = worker_environment(plan_of(1), place, {"NCCL_SOCKET_IFNAME=ib"});
  EXPECT_THAT(*chosen, IsSupersetOf({"GLOO_SOCKET_IFNAME=eth0", "NCCL_SOCKET_IFNAME=ib"}));
}

TEST(WorkerEnvironment, ReplacesWhatAnOuterLauncherLeft) {
  const auto environment =
      worker_environment(plan_of(2), place_of(0, 2), {"RANK=7", "DDPRUN_RESTART_REASON=old"});
  EXPECT_THAT(*environment, Contains("RANK=0"));
  EXPECT_THAT(*environment, Not(Contains("RANK=7")));
  EXPECT_THAT(*environment, Each(Not(StartsWith("DDPRUN_RESTART_REASON"))));
}

TEST(WorkerEnvironment, LeavesTheUsersChoiceOfThreadsAlone) {
  const auto environment = worker_environment(
      plan_of(2), place_of(0, 2), {"OMP_NUM_THREADS=7", "TORCH_NCCL_ASYNC_ERROR_HANDLING=0"});
  EXPECT_THAT(*environment, Contains("OMP_NUM_THREADS=7"));
  EXPECT_THAT(*environment, Contains("TORCH_NCCL_ASYNC_ERROR_HANDLING=0"));
}

TEST(WorkerEnvironment, GivesEachWorkerOneThreadAtLeast) {
  const auto environment = worker_environment(plan_of(8), place_of(0, 8), {});
  EXPECT_THAT(*environment, Contains("OMP_NUM_THREADS=1"));
}

TEST(WorkerEnvironment, TellsARestartWhyAndWhatItWas) {
  WorkerPlace place = place_of(0, 2);
  place.round.round.number = 3;
  place.round.progress.attempt = 2;
  place.round.progress.reason = "local rank 1 (pid 9) exited with status 3";
  place.round.progress.previous_world = 2;
  const auto environment = worker_environment(plan_of(2), place, {});
  EXPECT_THAT(*environment, Contains("TORCHELASTIC_RESTART_COUNT=2"));
  EXPECT_THAT(*environment, Contains("DDPRUN_ROUND=3"));
  EXPECT_THAT(
      *environment, Contains("DDPRUN_RESTART_REASON=local rank 1 (pid 9) exited with status 3"));
  EXPECT_THAT(*environment, Contains("DDPRUN_PREV_WORLD_SIZE=2"));
}

TEST(WorkerEnvironment, SaysWhenRankZeroHostsTheStore) {
  LaunchPlan plan = plan_of(1);
  plan.shared_store = false;
  EXPECT_THAT(
      *worker_environment(plan, place_of(0, 1), {}),
      Contains("TORCHELASTIC_USE_AGENT_STORE=False"));
}

TEST(WorkerEnvironment, CutsTheDevicesToOneForAVirtualLocalRank) {
  LaunchPlan plan = plan_of(2);
  plan.virtual_local_rank = true;
  const auto environment =
      worker_environment(plan, place_of(1, 2), {"CUDA_VISIBLE_DEVICES=GPU-aa, MIG-bb"});
  EXPECT_THAT(*environment, Contains("LOCAL_RANK=0"));
  EXPECT_THAT(*environment, Contains("CUDA_VISIBLE_DEVICES=MIG-bb"));
}

TEST(WorkerEnvironment, NumbersTheDevicesWhereNoneAreNamed) {
  LaunchPlan plan = plan_of(2);
  plan.virtual_local_rank = true;
  EXPECT_THAT(*worker_environment(plan, place_of(1, 2), {}), Contains("CUDA_VISIBLE_DEVICES=1"));
}

TEST(WorkerEnvironment, RefusesADeviceListThatIsTooShort) {
  LaunchPlan plan = plan_of(2);
  plan.virtual_local_rank = true;
  const auto environment = worker_environment(plan, place_of(1, 2), {"CUDA_VISIBLE_DEVICES=3"});
  ASSERT_FALSE(environment);
  EXPECT_TRUE(environment.error().is(Errc::kInvalidArgument));
}

TEST(WithLocalRank, ReplacesBothSpellingsAndNothingElse) {
  EXPECT_EQ(with_local_rank("a${local_rank}b$local_rank", 3), "a3b3");
  EXPECT_EQ(with_local_rank("$HOME $$ $local_ranks ${rank}", 3), "$HOME $$ $local_ranks ${rank}");
}

TEST(ForkServerEnvironment, HasWhatIsTheSameForAllWorkersAndNothingOfARank) {
  EXPECT_THAT(
      fork_server_environment(
          plan_of(2), {"MINE=1", "RANK=7", "MASTER_ADDR=n1", "DDPRUN_SECRET=0123456789abcdef"}),
      UnorderedElementsAre("MINE=1", "OMP_NUM_THREADS=2", "TORCH_NCCL_ASYNC_ERROR_HANDLING=1"));
}

TEST(ForkServerEnvironment, KnowsEveryVariableOfOneWorker) {
  WorkerPlace first = place_of(0, 2);
  first.round.progress.attempt = 1;
  first.round.progress.reason = "failure";
  first.round.progress.previous_world = 3;
  WorkerPlace second = place_of(1, 2);
  second.round = first.round;
  second.error_file = "/logs/other.json";
  const auto one = *worker_environment(plan_of(2), first, {});
  const auto other = *worker_environment(plan_of(2), second, {});
  const auto common = fork_server_environment(plan_of(2), one);
  for (const std::string& entry : one) {
    const bool is_its_own = std::ranges::find(other, entry) == other.end();
    EXPECT_FALSE(is_its_own && std::ranges::find(common, entry) != common.end()) << entry;
  }
}

}  // namespace
}  // namespace ddprun
