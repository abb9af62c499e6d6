#include "trainer/core/worker_place.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ddprun {
namespace {

using ::testing::HasSubstr;

Result<WorkerPlace> place_of(Environment variables) {
  return parse_worker_place(fill_environment(std::move(variables)).value());
}

std::string refusal_of(Environment variables) {
  const auto place = place_of(std::move(variables));
  return place ? "accepted" : place.error().detail;
}

TEST(WorkerPlace, IsAWorldOfOneWithoutALauncher) {
  const auto place = place_of({});
  ASSERT_TRUE(place);
  WorkerPlace alone;
  alone.run_id = "none";
  EXPECT_EQ(*place, alone);
}

TEST(WorkerPlace, IsWhatTheAgentSaid) {
  const auto place = place_of(
      {{"RANK", "3"},
       {"WORLD_SIZE", "4"},
       {"MASTER_ADDR", "node1"},
       {"MASTER_PORT", "1234"},
       {"TORCHELASTIC_USE_AGENT_STORE", "True"},
       {"TORCHELASTIC_RUN_ID", "job"},
       {"TORCHELASTIC_RESTART_COUNT", "2"},
       {"DDPRUN_TERM", "5"},
       {"DDPRUN_ROUND", "6"}});
  ASSERT_TRUE(place);
  const WorkerPlace expected{
      .rank = 3,
      .world = 4,
      .store = Endpoint{.host = "node1", .port = 1234},
      .agent_store = true,
      .search = std::nullopt,
      .run_id = "job",
      .attempt = 2,
      .term = 5,
      .round = 6};
  EXPECT_EQ(*place, expected);
}

TEST(WorkerPlace, HostsTheStoreItselfWithoutAnAgent) {
  const auto place = place_of({{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "::1"}});
  ASSERT_TRUE(place);
  EXPECT_FALSE(place->agent_store);
  EXPECT_EQ(place->store->port, 29500);
}

TEST(WorkerPlace, RefusesARankOutsideTheWorld) {
  EXPECT_THAT(
      refusal_of({{"RANK", "2"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "a"}}),
      HasSubstr("RANK='2': expected a number from 0 to 1"));
}

TEST(WorkerPlace, RefusesAWorldWithoutARankOrAStore) {
  EXPECT_THAT(refusal_of({{"WORLD_SIZE", "2"}}), HasSubstr("RANK is not set"));
  EXPECT_THAT(refusal_of({{"RANK", "0"}, {"WORLD_SIZE", "2"}}), HasSubstr("MASTER_ADDR"));
}

TEST(WorkerPlace, NamesTheVariableThatIsWrongAndNotTheOneItStandsFor) {
  EXPECT_THAT(
      refusal_of({{"OMPI_COMM_WORLD_RANK", "x"}, {"OMPI_COMM_WORLD_SIZE", "2"}}),
      HasSubstr("OMPI_COMM_WORLD_RANK='x': expected a number from 0 to 1"));
}

TEST(WorkerPlace, RefusesWhatIsNoNumber) {
  EXPECT_THAT(refusal_of({{"WORLD_SIZE", "two"}}), HasSubstr("WORLD_SIZE='two'"));
  EXPECT_THAT(
      refusal_of(
          {{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "a"}, {"MASTER_PORT", "70000"}}),
      HasSubstr("MASTER_PORT='70000': expected a number from 1 to 65535"));
}

}  // namespace
}  // namespace ddprun
