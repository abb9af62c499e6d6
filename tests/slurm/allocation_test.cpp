#include "slurm/core/allocation.hpp"

#include "tests/slurm/recorded.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ddprun {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::recorded;

Allocation allocation_of(const Environment& environment) {
  const auto found = find_allocation(environment);
  EXPECT_TRUE(found) << found.error().detail;
  return found.value().value();
}

/// The error for the recorded step if `variable` is `value`.
std::string complaint(const char* variable, const std::string& value) {
  Environment environment = recorded("bare_srun");
  environment[variable] = value;
  const auto found = find_allocation(environment);
  EXPECT_FALSE(found) << variable << "=" << value;
  return found ? "" : found.error().detail;
}

TEST(Allocation, IsThatOfABareSrun) {
  const Allocation expected{
      .job_id = 1,
      .step_id = 0,
      .nodes = {"node0", "node1"},
      .tasks_per_node = {1, 1},
      .node_id = 1,
      .task_id = 1,
      .local_id = 0,
      .job_nodes = 2,
      .cpus = 1,
      .gpus = 2,
      .restarts = 0,
      .end_time = {},
      .array_job = std::nullopt,
      .array_task = std::nullopt,
      .batch_host = {},
      .is_heterogeneous = false,
  };
  EXPECT_EQ(allocation_of(recorded("bare_srun")), expected);
  EXPECT_EQ(expected.node_name(), "node1");
}

TEST(Allocation, TheBatchHostIsTheFirstNodeOfTheJobAndNotOfTheStep) {
  Environment environment = recorded("bare_srun");
  environment["SLURM_JOB_NODELIST"] = "node[7,0-1]";
  EXPECT_EQ(allocation_of(environment).batch_host, "");  // by salloc
  environment["ENVIRONMENT"] = "BATCH";
  EXPECT_EQ(allocation_of(environment).batch_host, "node7");
}

TEST(Allocation, IsNothingOutsideAStep) {
  for (const char* name : {"batch_script", "salloc_shell", "interactive_step"}) {
    const auto found = find_allocation(recorded(name));
    ASSERT_TRUE(found) << found.error().detail;
    EXPECT_FALSE(*found) << name;
  }
  EXPECT_FALSE(find_allocation({}).value());
  EXPECT_FALSE(find_allocation({{"SLURM_STEP_ID", ""}, {"SLURM_PROCID", "0"}}).value());
  EXPECT_FALSE(find_allocation({{"SLURM_STEP_ID", "4294967280"}}).value());
}

TEST(Allocation, CountsTasksOfUnevenNodes) {
  const Allocation last = allocation_of(recorded("uneven_tasks"));
  EXPECT_THAT(last.tasks_per_node, ElementsAre(6, 1, 1));
  EXPECT_EQ(last.tasks(), 8);
  EXPECT_EQ(last.tasks_here(), 1);
  EXPECT_TRUE(last.has_shared_nodes());  // though this node is not one
  EXPECT_EQ(last.gpus, std::nullopt);
}

TEST(Allocation, TellsTaskFromNode) {
  const Allocation third_of_node0 = allocation_of(recorded("cyclic_tasks"));
  EXPECT_EQ(third_of_node0.task_id, 3);
  EXPECT_EQ(third_of_node0.node_id, 0U);
  EXPECT_EQ(third_of_node0.local_id, 2);
}

TEST(Allocation, IsOfTheStepEvenIfTheJobIsLarger) {
  const Allocation small = allocation_of(recorded("smaller_step"));
  EXPECT_EQ(small.nodes.size(), 1U);
  EXPECT_EQ(small.job_nodes, 2);
  EXPECT_EQ(small.run_name(), std::to_string(small.job_id) + "_step1");
}

TEST(Allocation, SaysWhichSrunStartsOneAgentPerNode) {
  const Allocation shared = allocation_of(recorded("tasks_share_nodes"));
  EXPECT_TRUE(shared.has_shared_nodes());
  EXPECT_EQ(shared.cpus, 8);
  EXPECT_EQ(
      agents_share_nodes(shared).detail,
      "this step has 8 tasks on 2 nodes, but ddprun needs one per node; start it by srun --nodes=2 "
      "--ntasks=2 --ntasks-per-node=1 ddprun");
  // The same command line, in the same job:
  EXPECT_FALSE(allocation_of(recorded("one_task_per_node")).has_shared_nodes());
}

TEST(Allocation, CountsTheGpusOfThisTask) {
  EXPECT_EQ(allocation_of(recorded("gpu_per_task")).gpus, 1);
  EXPECT_EQ(allocation_of(recorded("tasks_share_nodes")).gpus, 4);

  Environment environment = recorded("bare_srun");
  const auto gpus_with = [&environment](const char* visible) {
    environment["CUDA_VISIBLE_DEVICES"] = visible;
    return allocation_of(environment).gpus;
  };
  EXPECT_EQ(gpus_with("2,3"), 2);
  EXPECT_EQ(gpus_with("GPU-5ab4,MIG-GPU-b3/1/0, 1"), 3);
  EXPECT_EQ(gpus_with(""), 0);
  EXPECT_EQ(gpus_with("-1"), 0);
  EXPECT_EQ(gpus_with("NoDevFiles"), 0);
  environment.erase("CUDA_VISIBLE_DEVICES");
  environment["SLURM_GPUS_ON_NODE"] = "4";  // --gpu-bind=none
  EXPECT_EQ(allocation_of(environment).gpus, 4);
}

TEST(Allocation, KnowsArrayHeterogeneityAndRestarts) {
  const Allocation element = allocation_of(recorded("array_element"));
  EXPECT_EQ(element.array_task, 5U);
  EXPECT_EQ(element.scontrol_id(), "7_5");  // all elements are job 7 to scontrol, as this one is
  EXPECT_FALSE(element.is_heterogeneous);

  const Allocation whole = allocation_of(recorded("heterogeneous"));
  EXPECT_TRUE(whole.is_heterogeneous);
  EXPECT_THAT(whole.nodes, ElementsAre("node0", "node1", "node2"));
  EXPECT_EQ(whole.gpus, 1);  // node0 has two

  EXPECT_EQ(allocation_of(recorded("requeued")).restarts, 1);
}

TEST(Allocation, MakesPortsAndTheRunsNameOfTheJob) {
  Environment environment = recorded("bare_srun");
  const auto ports = [&environment](const char* job) {
    environment["SLURM_JOB_ID"] = job;
    return allocation_of(environment).ports();
  };
  EXPECT_THAT(ports("7782523"), ElementsAre(12'523, 22'523, 32'523, 42'523));
  EXPECT_THAT(ports("42"), ElementsAre(10'042, 20'042, 30'042, 40'042));
  EXPECT_THAT(ports("9999"), ElementsAre(19'999, 29'999, 39'999, 49'999));
  EXPECT_EQ(allocation_of(environment).run_name(), "9999");
}

TEST(Allocation, RefusesABadNumberWithVariableValueAndRemedy) {
  EXPECT_EQ(
      complaint("SLURM_NODEID", "x"),
      "SLURM_NODEID is 'x', not a whole number from 0 to 65535; start ddprun by srun, or unset "
      "SLURM_STEP_ID to run without Slurm");
  for (const char* variable :
       {"SLURM_STEP_ID",
        "SLURM_JOB_ID",
        "SLURM_STEP_NUM_NODES",
        "SLURM_STEP_NUM_TASKS",
        "SLURM_PROCID",
        "SLURM_LOCALID",
        "SLURM_JOB_NUM_NODES",
        "SLURM_CPUS_ON_NODE",
        "SLURM_RESTART_COUNT",
        "SLURM_ARRAY_TASK_ID"}) {
    for (const char* value : {"-1", "1e3", " 1", "99999999999999999999"}) {
      EXPECT_THAT(
          complaint(variable, value),
          HasSubstr(std::string(variable) + " is '" + value + "', not"));
    }
  }
  EXPECT_THAT(complaint("SLURM_STEP_NUM_NODES", "0"), HasSubstr("from 1 to 65536"));
  EXPECT_LT(complaint("SLURM_PROCID", std::string(1'000'000, 'x')).size(), 300U);
}

TEST(Allocation, RefusesVariablesThatDisagree) {
  EXPECT_THAT(
      complaint("SLURM_STEP_NODELIST", "node[0-2]"),
      HasSubstr("SLURM_STEP_NODELIST has 3 nodes, but SLURM_STEP_NUM_NODES says 2"));
  EXPECT_THAT(
      complaint("SLURM_STEP_TASKS_PER_NODE", "2"),
      HasSubstr("SLURM_STEP_TASKS_PER_NODE has 1 nodes, but SLURM_STEP_NODELIST says 2"));
  EXPECT_THAT(
      complaint("SLURM_STEP_TASKS_PER_NODE", "2,1"),
      HasSubstr("SLURM_STEP_TASKS_PER_NODE has 3 tasks, but SLURM_STEP_NUM_TASKS says 2"));
  EXPECT_THAT(complaint("SLURM_NODEID", "2"), HasSubstr("SLURM_NODEID has 2, but"));
  EXPECT_THAT(complaint("SLURM_PROCID", "2"), HasSubstr("SLURM_PROCID has 2, but"));
  EXPECT_THAT(complaint("SLURM_LOCALID", "1"), HasSubstr("SLURM_LOCALID has 1, but"));
}

TEST(Allocation, RefusesAListItCannotRead) {
  EXPECT_THAT(
      complaint("SLURM_STEP_NODELIST", "node[0-"),
      HasSubstr("SLURM_STEP_NODELIST: host list 'node[0-', position 5: the bracket is not closed"));
  EXPECT_THAT(
      complaint("SLURM_STEP_TASKS_PER_NODE", "1(x"),
      HasSubstr("SLURM_STEP_TASKS_PER_NODE: '1(x' is not a count"));
}

TEST(Allocation, RefusesAStepWithoutItsVariables) {
  for (const char* variable :
       {"SLURM_JOB_ID",
        "SLURM_STEP_NODELIST",
        "SLURM_STEP_NUM_NODES",
        "SLURM_STEP_NUM_TASKS",
        "SLURM_STEP_TASKS_PER_NODE",
        "SLURM_NODEID",
        "SLURM_PROCID",
        "SLURM_LOCALID"}) {
    Environment environment = recorded("bare_srun");
    environment.erase(variable);
    const auto found = find_allocation(environment);
    ASSERT_FALSE(found) << variable;
    EXPECT_THAT(
        found.error().detail, HasSubstr(std::string(variable) + " is not set in a step; start"));
  }
}

}  // namespace
}  // namespace ddprun
