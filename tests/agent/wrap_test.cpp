// The tokens of --wrap, and the header.

#include "agent/core/wrap.hpp"

#include "agent/core/header.hpp"

#include <gtest/gtest.h>

namespace ddprun {
namespace {

WorkerPlace place_of_rank_5() {
  WorkerPlace place;
  place.group_rank = 2;
  place.rank = 5;
  place.local_rank = 1;
  place.world_size = 8;
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

HeaderFacts facts() {
  return {
      .date = "2026-11-21_08:13:00",
      .host = "node0",
      .attempt = 0,
      .nodes = 2,
      .workers = 4,
      .master = {.host = "node0", .port = 12'523},
      .interface = "",
      .python = ""};
}

TEST(Header, SaysWhatRunsWhere) {
  const HeaderPlan plan{.gpus = 2, .commit = "c0ffee", .slurm_restarts = 0};
  EXPECT_EQ(
      header_text(plan, "7782523", facts()),
      "ddprun: date=2026-11-21_08:13:00 host=node0 job=7782523 attempt=0 nodes=2 workers=4 gpus=2 "
      "master=node0:12523 commit=c0ffee\n");
}

TEST(Header, NamesTheInterfaceThatWorkersAreToldToUse) {
  HeaderFacts told = facts();
  told.interface = "eth0";
  EXPECT_TRUE(header_text({}, "7", told).ends_with(" master=node0:12523 interface=eth0\n"));
}

TEST(Header, NamesThePythonThatRunsTheWorkers) {
  HeaderFacts told = facts();
  told.python = "/opt/venv/bin/python";
  EXPECT_TRUE(header_text({}, "7", told).ends_with(":12523 python=/opt/venv/bin/python\n"));
}

TEST(Header, SaysInTheFirstAttemptThatSlurmHasStartedTheJobAgain) {
  const HeaderPlan plan{.gpus = 0, .commit = "", .slurm_restarts = 1};
  EXPECT_TRUE(header_text(plan, "7", facts())
                  .ends_with("master=node0:12523\nddprun: restarted 1 times by SLURM\n"));
  HeaderFacts later = facts();
  later.attempt = 1;
  EXPECT_TRUE(header_text(plan, "7", later).ends_with("master=node0:12523\n"));
}

}  // namespace
}  // namespace ddprun
