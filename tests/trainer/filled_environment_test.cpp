#include "trainer/core/filled_environment.hpp"

#include "tests/slurm/recorded.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ddprun {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::recorded;

constexpr const char* kNames[] = {
    "RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"};

/// The six variables in the order of kNames, "-" for one that is not set.
std::string six_of(Environment environment) {
  const auto filled = fill_environment(std::move(environment));
  if (!filled) return filled.error().detail;
  std::string text;
  for (const char* name : kNames) {
    text += filled->find(name).value_or("-") + " ";
  }
  text.pop_back();
  return text;
}

Environment with(Environment environment, const Environment& more) {
  for (const auto& [name, value] : more) {
    environment[name] = value;
  }
  return environment;
}

StoreSearch search_of(Environment environment) {
  return fill_environment(std::move(environment)).value().search.value();
}

const Environment kOpenMpi = {
    {"OMPI_COMM_WORLD_RANK", "2"},
    {"OMPI_COMM_WORLD_SIZE", "4"},
    {"OMPI_COMM_WORLD_LOCAL_RANK", "0"},
    {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}};

TEST(FilledEnvironment, IsEmptyWithoutAnybodyWhoSaysTheRank) {
  EXPECT_EQ(six_of({}), "- - - - - -");
  EXPECT_EQ(fill_environment({}).value().sources.size(), 0U);
}

TEST(FilledEnvironment, IsThatOfATaskOfSlurm) {
  EXPECT_EQ(six_of(recorded("tasks_share_nodes")), "5 1 8 4 node0 10006");
  EXPECT_EQ(six_of(recorded("gpu_per_task")), "5 1 8 4 node0 10004");
}

TEST(FilledEnvironment, RanksAreTasksHoweverTheyAreSpread) {
  EXPECT_EQ(six_of(recorded("uneven_tasks")), "7 0 8 1 node0 10002");
  EXPECT_EQ(six_of(recorded("cyclic_tasks")), "3 2 4 3 node0 10003");
  EXPECT_EQ(six_of(recorded("smaller_step")).substr(0, 8), "0 0 1 1 ");
}

TEST(FilledEnvironment, ABatchScriptIsNoStepThoughItHasATaskNumber) {
  for (const char* name : {"batch_script", "salloc_shell", "interactive_step"}) {
    EXPECT_EQ(six_of(recorded(name)), "- - - - - -") << name;
  }
}

TEST(FilledEnvironment, TakesTaskNumbersThatWereSetByHand) {
  const Environment by_hand = {
      {"SLURM_PROCID", "1"}, {"SLURM_NTASKS", "2"}, {"SLURM_LOCALID", "1"}};
  EXPECT_EQ(six_of(by_hand), "1 1 2 - - -");
}

TEST(FilledEnvironment, IsThatOfARankOfMpi) {
  EXPECT_EQ(six_of(kOpenMpi), "2 0 4 2 - -");
  EXPECT_EQ(six_of({{"PMI_RANK", "1"}, {"PMI_SIZE", "3"}}), "1 - 3 - - -");
  EXPECT_EQ(
      six_of(
          {{"PMI_RANK", "1"},
           {"PMI_SIZE", "3"},
           {"MPI_LOCALRANKID", "0"},
           {"MPI_LOCALNRANKS", "1"}}),
      "1 0 3 1 - -");
}

TEST(FilledEnvironment, RanksThatAreAllHereUseThisHost) {
  EXPECT_EQ(six_of(with(kOpenMpi, {{"OMPI_COMM_WORLD_LOCAL_SIZE", "4"}})), "2 0 4 4 127.0.0.1 -");
}

TEST(FilledEnvironment, ChangesNothingThatIsSet) {
  const Environment slurm = recorded("uneven_tasks");
  EXPECT_EQ(six_of(with(slurm, {{"RANK", "3"}})), "3 0 8 1 node0 10002");
  EXPECT_EQ(six_of(with(slurm, {{"MASTER_ADDR", "a"}, {"MASTER_PORT", "5"}})), "7 0 8 1 a 5");
  EXPECT_EQ(six_of(with(kOpenMpi, {{"RANK", "9"}, {"LOCAL_RANK", "8"}})), "9 8 4 2 - -");
  EXPECT_EQ(six_of(with(slurm, {{"WORLD_SIZE", "1"}})), "- - 1 - - -");
}

TEST(FilledEnvironment, OddVariablesOfSlurmDoNotMatterToWhoSaysIt) {
  const Environment odd = with(recorded("uneven_tasks"), {{"SLURM_PROCID", "8"}});
  EXPECT_THAT(six_of(odd), HasSubstr("SLURM_PROCID has 8, but SLURM_STEP_NUM_TASKS says 8"));
  const Environment said = {
      {"RANK", "0"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "a"}, {"MASTER_PORT", "5"}};
  EXPECT_EQ(six_of(with(odd, said)), "0 - 2 - a 5");
}

TEST(FilledEnvironment, AnMpiWithinAStepComesBeforeTheStep) {
  EXPECT_EQ(six_of(with(recorded("bare_srun"), kOpenMpi)), "2 0 4 2 - -");
}

TEST(FilledEnvironment, AStepThatSpeaksPmiAsWellKnowsWhereRankZeroIs) {
  const Environment slurm = recorded("uneven_tasks");
  EXPECT_EQ(six_of(with(slurm, {{"PMI_RANK", "7"}, {"PMI_SIZE", "8"}})), "7 0 8 1 node0 10002");
  EXPECT_EQ(six_of(with(slurm, {{"PMIX_RANK", "7"}})), "7 0 8 1 node0 10002");
}

TEST(FilledEnvironment, RefusesARankWithoutAWorld) {
  EXPECT_EQ(
      six_of({{"PMIX_RANK", "0"}}),
      "PMIX_RANK is '0', but nothing says how many ranks there are; set WORLD_SIZE");
  EXPECT_EQ(six_of({{"PMIX_RANK", "1"}, {"WORLD_SIZE", "2"}}), "1 - 2 - - -");
}

TEST(FilledEnvironment, RefusesRankZeroWhereTheOthersDoNotLookForIt) {
  const Environment elsewhere = with(recorded("uneven_tasks"), {{"SLURM_PROCID", "0"}});
  EXPECT_THAT(six_of(elsewhere), HasSubstr("rank 0 is on node2, but the other tasks expect it"));
  EXPECT_EQ(six_of(with(elsewhere, {{"MASTER_ADDR", "node2"}})), "0 0 8 1 node2 10002");
}

TEST(FilledEnvironment, LooksForAStoreAtPortsThatAreNoOtherJobsFirst) {
  EXPECT_THAT(
      search_of(recorded("uneven_tasks")).ports, ElementsAre(10'002, 20'002, 30'002, 40'002));
  const Environment last = with(recorded("uneven_tasks"), {{"SLURM_JOB_ID", "9999"}});
  EXPECT_THAT(search_of(last).ports, ElementsAre(19'999, 29'999, 39'999, 49'999));
}

TEST(FilledEnvironment, MarksTheStoreOfThisRunOfThisStepAlone) {
  const Environment slurm = recorded("uneven_tasks");
  const std::string mark = search_of(slurm).mark;
  EXPECT_EQ(search_of(with(slurm, {{"SLURM_PROCID", "0"}, {"MASTER_ADDR", "a"}})).mark, mark);
  EXPECT_NE(search_of(with(slurm, {{"SLURM_JOB_ID", "10002"}})).mark, mark);
  EXPECT_NE(search_of(with(slurm, {{"SLURM_STEP_ID", "1"}})).mark, mark);
  EXPECT_NE(search_of(with(slurm, {{"SLURM_RESTART_COUNT", "1"}})).mark, mark);
}

TEST(FilledEnvironment, LooksNowhereElseThanWhereItIsTold) {
  const Environment told = with(recorded("uneven_tasks"), {{"MASTER_PORT", "5"}});
  EXPECT_FALSE(fill_environment(told).value().search);
}

TEST(FilledEnvironment, NamesTheRunAsDdprunDoes) {
  const auto name = [](Environment environment) {
    return fill_environment(std::move(environment)).value().run_name.value();
  };
  EXPECT_EQ(name(recorded("uneven_tasks")), "2");
  EXPECT_EQ(name(recorded("one_task_per_node")), "6_step2");
}

TEST(EnvironmentText, TellsWhatIsFromWhere) {
  EXPECT_EQ(
      environment_text(
          fill_environment(with(recorded("uneven_tasks"), {{"MASTER_ADDR", "a"}})).value()),
      "RANK=7  # SLURM_PROCID\n"
      "LOCAL_RANK=0  # SLURM_LOCALID\n"
      "WORLD_SIZE=8  # SLURM_STEP_NUM_TASKS\n"
      "LOCAL_WORLD_SIZE=1  # SLURM_STEP_TASKS_PER_NODE\n"
      "MASTER_ADDR=a  # set\n"
      "MASTER_PORT=10002  # SLURM_JOB_ID\n");
}

TEST(EnvironmentText, TellsWhatNobodySays) {
  EXPECT_EQ(
      environment_text(fill_environment({}).value()),
      "RANK=0  # alone\n"
      "LOCAL_RANK=0  # alone\n"
      "WORLD_SIZE=1  # alone\n"
      "LOCAL_WORLD_SIZE=1  # alone\n"
      "# MASTER_ADDR is not set\n"
      "# MASTER_PORT is not set\n");
  EXPECT_EQ(
      environment_text(fill_environment({{"PMI_RANK", "1"}, {"PMI_SIZE", "3"}}).value()),
      "RANK=1  # PMI_RANK\n"
      "# LOCAL_RANK is not set\n"
      "WORLD_SIZE=3  # PMI_SIZE\n"
      "# LOCAL_WORLD_SIZE is not set\n"
      "# MASTER_ADDR is not set\n"
      "MASTER_PORT=29500  # the usual one\n");
}

TEST(RequireRank, NamesWhatWouldSayIt) {
  const auto alone = require_rank(fill_environment(recorded("batch_script")).value());
  ASSERT_FALSE(alone);
  EXPECT_THAT(alone.error().detail, HasSubstr("start it by 'srun ddptrain' or 'ddprun ddptrain'"));
  EXPECT_TRUE(require_rank(fill_environment(recorded("uneven_tasks")).value()));
}

}  // namespace
}  // namespace ddprun
