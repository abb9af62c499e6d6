// Slurm's values fill in what the command line does not give.

#include "launcher/flags/core/slurm_flags.hpp"

#include "tests/launcher/flags/command_lines.hpp"

#include <gmock/gmock.h>

namespace ddprun {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr int kCpus = 16;

/// The second of three nodes.
Allocation three_nodes() {
  Allocation allocation;
  allocation.job_id = 7'782'523;
  allocation.nodes = {"node0", "node1", "node2"};
  allocation.tasks_per_node = {1, 1, 1};
  allocation.node_id = 1;
  allocation.cpus = 4;
  return allocation;
}

Result<Options> read_in(const Allocation& allocation, Arguments arguments) {
  arguments.emplace_back("train.py");
  auto line = read_command_line(arguments, {});
  if (!line) return line.error();
  auto const filled = fill_from_slurm(allocation, kCpus, *line);
  if (!filled) return filled.error();
  return read_options(*line, {});
}

Options options_in(const Allocation& allocation, const Arguments& arguments = {}) {
  auto options = read_in(allocation, arguments);
  EXPECT_TRUE(options) << (options ? "" : options.error().detail);
  return options ? *options : Options();
}

std::string complaint_in(const Allocation& allocation, const Arguments& arguments) {
  const auto options = read_in(allocation, arguments);
  return options ? "accepted" : options.error().detail;
}

TEST(SlurmFlags, AllNodesHaveTheirEndpointAtTheFirst) {
  const Options options = options_in(three_nodes());
  const RendezvousPlan& rendezvous = options.plan.rendezvous;
  EXPECT_EQ(rendezvous.nodes, NodeRange(3, 3));
  EXPECT_EQ(rendezvous.endpoint, (Endpoint{"node0", 12'523}));
  EXPECT_EQ(rendezvous.node_rank, 1);
  EXPECT_EQ(rendezvous.bootstraps, Bootstraps::kNo);
  EXPECT_EQ(options.plan.run_id, "7782523");
  EXPECT_EQ(options.workers.number, 4);
}

TEST(SlurmFlags, OneNodeRunsAndTheOthersStandBy) {
  const RendezvousPlan rendezvous = options_in(three_nodes(), {"--nnodes", "1"}).plan.rendezvous;
  EXPECT_EQ(rendezvous.nodes, NodeRange(1, 1));
  EXPECT_EQ(rendezvous.endpoint, (Endpoint{"node0", 12'523}));
  EXPECT_EQ(rendezvous.bootstraps, Bootstraps::kIfItCanBind);
}

TEST(SlurmFlags, ANodesPlaceIsSlurms) {
  EXPECT_THAT(
      complaint_in(three_nodes(), {"--node-rank", "0"}),
      HasSubstr("--node-rank '0': this is node 1 of the step"));
  EXPECT_EQ(complaint_in(three_nodes(), {"--node-rank", "1"}), "accepted");
}

// Another step of the job may be there: its node is asked, and refuses this one by name.
TEST(SlurmFlags, TheFirstNodeHostsAPlaceThatWasTypedOnlyIfThatIsItsOwnAndFree) {
  const auto bootstraps = [](const Arguments& arguments) {
    Allocation first = three_nodes();
    first.node_id = 0;
    return options_in(first, arguments).plan.rendezvous.bootstraps;
  };
  EXPECT_EQ(bootstraps({}), Bootstraps::kYes);
  EXPECT_EQ(bootstraps({"--master-addr", "node7"}), Bootstraps::kIfItCanBind);
  EXPECT_EQ(bootstraps({"--master-port", "29500"}), Bootstraps::kIfItCanBind);
}

TEST(SlurmFlags, APortThatTheUserGaveIsTheOnlyOne) {
  const auto others = [](Arguments arguments) {
    arguments.emplace_back("train.py");
    auto line = read_command_line(arguments, {});
    EXPECT_TRUE(line && fill_from_slurm(three_nodes(), kCpus, *line));
    return line ? other_ports(three_nodes(), *line) : std::vector<std::uint16_t>();
  };
  EXPECT_THAT(others({}), ElementsAre(22'523, 32'523, 42'523));
  EXPECT_THAT(others({"--master-port", "12523"}), IsEmpty());
  EXPECT_THAT(others({"--master-addr", "node0"}), IsEmpty());
}

TEST(SlurmFlags, WhereTheOnlyPortIsTakenTheOthersAreToldAtTwoMadeOfIt) {
  EXPECT_THAT(refusal_ports(29'500), ElementsAre(61'029, 63'296));
  for (const int port : {1, 2'266, 2'267, 65'535}) {
    for (const std::uint16_t refusal : refusal_ports(static_cast<std::uint16_t>(port)))
      EXPECT_GE(refusal, 61'000) << "Linux gives 32768 to 60999 to connections";
  }
}

TEST(SlurmFlags, TheFirstNodeBootstraps) {
  Allocation first = three_nodes();
  first.node_id = 0;
  EXPECT_EQ(options_in(first).plan.rendezvous.bootstraps, Bootstraps::kYes);
}

TEST(SlurmFlags, NodesBeyondThoseThatRunStandBy) {
  Allocation third = three_nodes();
  third.node_id = 2;
  const RendezvousPlan spare = options_in(third, {"--nnodes=2"}).plan.rendezvous;
  EXPECT_EQ(spare.nodes, NodeRange(2, 2));
  EXPECT_EQ(spare.endpoint, (Endpoint{"node0", 12'523}));
  EXPECT_EQ(spare.bootstraps, Bootstraps::kIfItCanBind);
  EXPECT_EQ(spare.node_rank, std::nullopt);
  EXPECT_EQ(options_in(third, {"--nnodes=1:3"}).plan.rendezvous.node_rank, 2);
}

TEST(SlurmFlags, WorkersAreAsManyAsGpus) {
  Allocation allocation = three_nodes();
  allocation.gpus = 2;
  EXPECT_EQ(options_in(allocation).workers.number, 2);
  EXPECT_EQ(options_in(allocation, {"--nproc-per-node=3"}).workers.number, 3);
}

TEST(SlurmFlags, FlagsWin) {
  const Options options = options_in(
      three_nodes(),
      {"--nnodes=2",
       "--node-rank=0",
       "--master-addr=10.0.0.1",
       "--master-port=29500",
       "--rdzv-id=mine",
       "--nproc-per-node=1",
       "--rdzv-backend=static"});
  EXPECT_EQ(options.plan.rendezvous.endpoint, (Endpoint{"10.0.0.1", 29'500}));
  EXPECT_EQ(options.plan.rendezvous.node_rank, 0);
  EXPECT_EQ(options.plan.run_id, "mine");
  EXPECT_EQ(options.workers.number, 1);
}

/// The second of two nodes, in a separate step.
Allocation one_node() {
  Allocation one;
  one.job_id = 7'782'523;
  one.step_id = 1;
  one.nodes = {"node1"};
  one.tasks_per_node = {1};
  return one;
}

TEST(SlurmFlags, StepsThatCombineHaveNoIdOfSlurms) {
  const Arguments two_terminals = {"--nnodes=2", "--node-rank=1", "--master-addr=node0"};
  EXPECT_EQ(options_in(one_node(), two_terminals).plan.run_id, "none");
  const Arguments elastic = {"--nnodes=1:2", "--rdzv-backend=c10d", "--rdzv-endpoint=node0:29400"};
  EXPECT_EQ(options_in(one_node(), elastic).plan.run_id, "none");
  // A step that has all nodes of its job never combines with nodes of another job.
  EXPECT_EQ(options_in(three_nodes(), elastic).plan.run_id, "7782523");
}

TEST(SlurmFlags, AStepWithoutNnodesIsAWorldOfItsOwn) {
  const auto is_whole = [](Arguments arguments) {
    arguments.emplace_back("train.py");
    auto line = read_command_line(arguments, {});
    EXPECT_TRUE(line && fill_from_slurm(three_nodes(), kCpus, *line));
    return line && is_whole_step(*line);
  };
  EXPECT_TRUE(is_whole({"--rdzv-id=mine", "--rdzv-endpoint=node0:29400"}));
  EXPECT_FALSE(is_whole({"--rdzv-id=mine", "--rdzv-endpoint=node0:29400", "--nnodes=3"}));
}

TEST(SlurmFlags, StandaloneIsEachNodeByItself) {
  const RendezvousPlan alone = options_in(three_nodes(), {"--standalone"}).plan.rendezvous;
  EXPECT_FALSE(alone.has_others());
}

TEST(SlurmFlags, OneNodeHasNoEndpoint) {
  Allocation one = three_nodes();
  one.nodes = {"node1"};
  one.tasks_per_node = {1};
  one.node_id = 0;
  EXPECT_FALSE(options_in(one).plan.rendezvous.has_others());
}

TEST(SlurmFlags, MoreNodesThanTheStepHasAreRefused) {
  EXPECT_THAT(
      complaint_in(three_nodes(), {"--nnodes=4"}),
      HasSubstr("--nnodes '4': this Slurm step has 3 nodes; ask sbatch and srun for 4"));
}

TEST(SlurmFlags, SeveralAgentsOnANodeAreRefused) {
  Allocation shared = three_nodes();
  shared.tasks_per_node = {2, 1, 1};
  EXPECT_THAT(complaint_in(shared, {}), HasSubstr("srun --nodes=3 --ntasks=3"));
  EXPECT_EQ(complaint_in(shared, {"--standalone"}), "accepted");
}

TEST(SlurmFlags, OfSeveralTasksOnANodeTheFirstTakesPartIfNodesAreCountedAndNotTasks) {
  Allocation shared = three_nodes();
  shared.tasks_per_node = {2, 2, 2};
  const auto is_one_too_many = [&shared](int local_id, Arguments arguments) {
    shared.local_id = local_id;
    arguments.emplace_back("train.py");
    const auto line = read_command_line(arguments, {});
    EXPECT_TRUE(line);
    return line && is_surplus(shared, *line);
  };
  const std::string endpoint = "--rdzv-endpoint=node0:29500";
  const std::string c10d = "--rdzv-backend=c10d";
  EXPECT_FALSE(is_one_too_many(0, {"--nnodes=3", c10d, endpoint}));
  EXPECT_TRUE(is_one_too_many(1, {"--nnodes=3", c10d, endpoint}));
  EXPECT_TRUE(is_one_too_many(1, {c10d, endpoint}));
  EXPECT_TRUE(is_one_too_many(1, {"--nnodes=3", "--node-rank=1", "--master-addr=node0"}));
  EXPECT_FALSE(is_one_too_many(1, {"--nnodes=6", c10d, endpoint}));  // an agent for each task
  EXPECT_FALSE(is_one_too_many(1, {"--nnodes=1", c10d, "--rdzv-endpoint=localhost:0"}));
  EXPECT_FALSE(is_one_too_many(1, {"--nnodes=1", "--master-addr=localhost", "--master-port=0"}));
  EXPECT_FALSE(is_one_too_many(1, {"--standalone"}));
  EXPECT_FALSE(is_one_too_many(1, {"--standalone", "--nnodes=1"}));
  EXPECT_TRUE(is_one_too_many(1, {"--nnodes=1", c10d, endpoint}));
  EXPECT_TRUE(is_one_too_many(1, {"--nnodes=1"}));
  EXPECT_TRUE(is_one_too_many(1, {"--nnodes=3"}));
  EXPECT_EQ(complaint_in(shared, {"--nnodes=3"}), "accepted");
  EXPECT_FALSE(is_one_too_many(1, {}));  // refused: no number of nodes is given
  EXPECT_FALSE(is_surplus(three_nodes(), {}));
}

TEST(SlurmFlags, WorkersOfAllNodesTogetherAreNotSlurmsToCount) {
  const Options options = options_in(three_nodes(), {"--num-processes=6"});
  EXPECT_EQ(options.workers.number, 2);
}

}  // namespace
}  // namespace ddprun
