#include "agent/core/rendezvous_policy.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ddprun {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;

TEST(RendezvousPolicy, IsWhatWasAskedForOnThisNode) {
  LaunchPlan plan;
  plan.run_id = "job7";
  plan.slurm_step = "812.1";
  plan.slurm_job = "812_step1";
  plan.workers = 4;
  plan.max_restarts = 3;
  plan.restart_window = 60s;
  plan.rendezvous.nodes = NodeRange(2, 4);
  plan.rendezvous.node_rank = 1;
  plan.rendezvous.endpoint = Endpoint{.host = "node0", .port = 29'400};
  plan.rendezvous.other_ports = {29'401};
  plan.rendezvous.refusal_ports = {12'523};
  plan.rendezvous.lease = 1s;
  plan.rendezvous.join_timeout = 90s;
  plan.rendezvous.last_call = 7s;
  plan.rendezvous.trusts_reset = false;
  plan.rendezvous.spares = true;
  plan.role = "trainer";
  plan.command.name = "train.py";
  plan.command.text = "/x/train.py --name caf\xC3\xA9";
  plan.rendezvous.trusts_replacement = true;
  plan.rendezvous.fence_directory = "/shared";
  RendezvousPolicy own;
  own.node.incarnation = Incarnation{42};
  own.node.host = "node1";
  own.node.listens = {.host = "10.0.0.2", .port = 40'000};
  own.node.machine = {.boot = "b7", .id = "m1"};
  own.bootstraps = false;
  own.took_part = true;
  own.cannot_host = "port 29400 is used by nc (pid 7)";
  own.survivors = {{.host = "10.0.0.2", .port = 40'001}};
  const auto policy = rendezvous_policy(plan, own);
  EXPECT_EQ(policy.job, "job7@812_step1");
  EXPECT_EQ(policy.survivors, std::vector({Endpoint{.host = "10.0.0.2", .port = 40'001}}));
  const NodeInfo node = {
      .incarnation = Incarnation{42},
      .host = "node1",
      .listens = {.host = "10.0.0.2", .port = 40'000},
      .node_rank = 1,
      .workers = 4,
      .machine = {.boot = "b7", .id = "m1"},
      .workload = {
          .program = "train.py",
          .role = "trainer",
          .command = "/x/train.py --name caf\\xc3\\xa9",
          .step = "812.1"}};
  EXPECT_EQ(policy.node, node);
  EXPECT_EQ(policy.nodes.min(), 2);
  EXPECT_EQ(policy.nodes.max(), 4);
  EXPECT_EQ(policy.max_restarts, 3);
  EXPECT_EQ(policy.restart_window, 60s);
  EXPECT_FALSE(policy.bootstraps);
  EXPECT_TRUE(policy.spares);
  EXPECT_THAT(policy.endpoints, ElementsAre(Endpoint{"node0", 29'400}, Endpoint{"node0", 29'401}));
  EXPECT_THAT(policy.refusals, ElementsAre(Endpoint{"node0", 12'523}));
  EXPECT_EQ(policy.cannot_host, "port 29400 is used by nc (pid 7)");
  EXPECT_TRUE(policy.took_part);
  EXPECT_EQ(policy.lease, 1s);
  EXPECT_EQ(policy.join_timeout, 90s);
  EXPECT_EQ(policy.last_call, 7s);
  EXPECT_FALSE(policy.trusts_reset);
  EXPECT_TRUE(policy.trusts_replacement);
  EXPECT_TRUE(policy.has_fence);
  EXPECT_EQ(policy.if_alone, "");
  EXPECT_EQ(policy.notice_delay, 200ms);
}

// A machine that lost power and is back would start the job again beside the nodes that still run
// it.
TEST(RendezvousPolicy, TheLastCallIsLongEnoughToHearSurvivors) {
  LaunchPlan plan;
  plan.rendezvous.last_call = 100ms;
  plan.rendezvous.lease = 3s;
  EXPECT_EQ(rendezvous_policy(plan, {}).last_call, 1050ms);
  plan.rendezvous.lease = 1s;
  EXPECT_EQ(rendezvous_policy(plan, {}).last_call, 1s);
  plan.rendezvous.lease = 30s;
  EXPECT_EQ(rendezvous_policy(plan, {}).last_call, 10'500ms);
}

// The others wait in the same way, each at its own endpoint.
TEST(RendezvousPolicy, HasAHintForANodeThatWaitsAloneAtAnEndpointThatEachMachineHas) {
  for (const std::string host : {"localhost", "127.0.1.1", "::1"}) {
    LaunchPlan plan;
    plan.rendezvous.nodes = NodeRange(2, 2);
    plan.rendezvous.endpoint = Endpoint{.host = host, .port = 29'400};
    EXPECT_EQ(
        rendezvous_policy(plan, {}).if_alone,
        "; " + host +
            " means each machine itself: if the other nodes are other machines, give all of them "
            "an address of this one");
  }
}

TEST(RendezvousPolicy, StepsOfOneIdAreOneJobOnlyIfTheySayHowManyNodesItHas) {
  LaunchPlan plan;
  plan.run_id = "mine";
  plan.slurm_step = "812.1";
  plan.slurm_job = "812_step1";
  EXPECT_EQ(rendezvous_policy(plan, {}).job, "mine");
  plan.is_whole_step = true;
  EXPECT_EQ(rendezvous_policy(plan, {}).job, "mine@812_step1");
  plan.run_id = plan.slurm_job;
  EXPECT_EQ(rendezvous_policy(plan, {}).job, "812_step1");
}

TEST(RendezvousPolicy, OfOneNodeHasNoUseForAFence) {
  LaunchPlan plan;
  plan.rendezvous.fence_directory = "/shared";
  EXPECT_FALSE(rendezvous_policy(plan, {}).has_fence);
}

TEST(RendezvousPolicy, WaitsOnlyInASlurmStepForTheNoticeThatMayHaveEndedAWorker) {
  LaunchPlan plan;
  EXPECT_EQ(rendezvous_policy(plan, {}).notice_delay, 0s);
  plan.slurm_step = "812.0";
  EXPECT_EQ(rendezvous_policy(plan, {}).notice_delay, 200ms);
}

TEST(RendezvousPolicy, CutsACommandThatIsTooLongToBeRead) {
  LaunchPlan plan;
  plan.command.text = std::string(10'000, 'x');
  const std::string command = rendezvous_policy(plan, {}).node.workload.command;
  EXPECT_LE(command.size(), 256U);
  EXPECT_THAT(command, testing::EndsWith("x..."));
}

}  // namespace
}  // namespace ddprun
