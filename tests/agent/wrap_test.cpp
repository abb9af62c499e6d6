// The tokens of --wrap, and the header.

#include "agent/core/header.hpp"
#include "agent/core/worker_environment.hpp"

#include <gtest/gtest.h>

#include <utility>

namespace ddprun {
namespace {

WorkerPlace place_of_rank_5() {
  WorkerPlace place;
  place.local_rank = 1;
  place.round.place = {.group_rank = 2, .group_size = 4, .first_rank = 4, .world_size = 8};
  return place;
}

TEST(Wrap, TellsTheCommandItsPlace) {
  const WorkerPlace place = place_of_rank_5();
  EXPECT_EQ(with_place("MARK=%n_%r", place, "77"), "MARK=2_5");
  EXPECT_EQ(with_place("%l of %w in %j", place, "77"), "1 of 8 in 77");
  EXPECT_EQ(with_place("100%%r", place, "77"), "100%r");
  EXPECT_EQ(with_place("$RANK", place, "77"), "$RANK");
  EXPECT_EQ(with_place("", place, "77"), "");
}

TEST(Wrap, DoesNotExpandTheIdOfTheJob) {
  EXPECT_EQ(with_place("%j", place_of_rank_5(), "%r"), "%r");
}

TEST(Wrap, KnowsAPercentSignThatMeansNothing) {
  EXPECT_EQ(unknown_placeholder("%r%%x"), std::nullopt);
  EXPECT_EQ(unknown_placeholder("%%%x"), "%x");
  EXPECT_EQ(unknown_placeholder("50%"), "%");
}

LaunchPlan plan_with(HeaderPlan header) {
  LaunchPlan plan;
  plan.run_id = "7782523";
  plan.header = std::move(header);
  return plan;
}

effects::StartWorkers round_of(int attempt) {
  effects::StartWorkers round;
  round.place.group_size = 2;
  round.place.world_size = 4;
  round.progress.attempt = attempt;
  round.master = {.host = "node0", .port = 12'523};
  return round;
}

HeaderFacts facts() {
  return {.date = "2026-11-21_08:13:00", .host = "node0", .interface = ""};
}

TEST(Header, SaysWhatRunsWhere) {
  const auto plan = plan_with({.gpus = 2, .commit = "c0ffee", .slurm_restarts = 0});
  EXPECT_EQ(
      header_text(plan, round_of(0), facts()),
      "ddprun: date=2026-11-21_08:13:00 host=node0 job=7782523 attempt=0 nodes=2 workers=4 gpus=2 "
      "master=node0:12523 commit=c0ffee\n");
}

TEST(Header, NamesTheInterfaceThatWorkersAreToldToUse) {
  HeaderFacts told = facts();
  told.interface = "eth0";
  EXPECT_TRUE(header_text(plan_with({}), round_of(0), told)
                  .ends_with(" master=node0:12523 interface=eth0\n"));
}

TEST(Header, NamesThePythonThatRunsTheWorkers) {
  LaunchPlan plan = plan_with({});
  plan.command.interpreter = "/opt/venv/bin/python";
  EXPECT_TRUE(
      header_text(plan, round_of(0), facts()).ends_with(":12523 python=/opt/venv/bin/python\n"));
}

TEST(Header, SaysInTheFirstAttemptThatSlurmHasStartedTheJobAgain) {
  const auto plan = plan_with({.gpus = 0, .commit = "", .slurm_restarts = 1});
  EXPECT_TRUE(header_text(plan, round_of(0), facts())
                  .ends_with("master=node0:12523\nddprun: restarted 1 times by SLURM\n"));
  EXPECT_TRUE(header_text(plan, round_of(1), facts()).ends_with("master=node0:12523\n"));
}

}  // namespace
}  // namespace ddprun
