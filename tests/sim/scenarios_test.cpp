// The rules of docs/rendezvous.md and docs/elections.md as scenarios of one fault each, in virtual
// time, on the cores themselves. The random schedules (ddprun_sim) find the other scenarios.

#include "tests/sim/scenario.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <variant>
#include <vector>

namespace ddprun::sim {
namespace {

using namespace std::chrono_literals;
using testing::_;
using testing::AllOf;
using testing::Contains;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::Pair;
using testing::SizeIs;
using testing::UnorderedElementsAre;

TEST(Scenarios, ANoticeToOneNodeEndsTheJobOnceAllHaveSaved) {
  Setting setting = cluster_of(3, NodeRange(3, 3));
  setting.forgetful_workers = 0;
  Scenario scenario(setting);
  scenario.after(1s);
  scenario->give_notice(1);
  scenario.after(10s);
  EXPECT_THAT(
      scenario->finished(),
      UnorderedElementsAre(Pair(0, kSavedStatus), Pair(1, kSavedStatus), Pair(2, kSavedStatus)));
}

TEST(Scenarios, R6_AWorkerThatANoticeEndsBeforeItsAgentHearsOfItIsNoFailure) {
  Scenario scenario(cluster_of(3, NodeRange(3, 3)));
  scenario.after(1s);
  scenario->end_worker_by_notice(2);
  scenario.after(100ms);
  scenario->give_notice(0);
  scenario.after(10s);
  EXPECT_THAT(scenario->finished(), UnorderedElementsAre(Pair(0, 143), Pair(1, 143), Pair(2, 143)));
  EXPECT_EQ(scenario->rounds_started(), 1);
}

TEST(Scenarios, R6_AJobWhoseWorkersHaveSavedBeforeTheirAgentsHearOfTheNoticeIsNotDone) {
  Scenario scenario(cluster_of(3, NodeRange(3, 3)));
  scenario.after(1s);
  for (const int node : {0, 1, 2}) {
    scenario->succeed(node);
  }
  scenario.after(100ms);
  scenario->give_notice(0);
  scenario.after(10s);
  EXPECT_THAT(
      scenario->finished(),
      UnorderedElementsAre(Pair(0, kSavedStatus), Pair(1, kSavedStatus), Pair(2, kSavedStatus)));
}

TEST(Scenarios, R5_AWorkerEndedByASignalThatIsNoNoticeIsReplacedAfterAMoment) {
  Scenario scenario(cluster_of(3, NodeRange(3, 3)));
  scenario.after(1s);
  const RoundId before = scenario->round();
  scenario->end_worker_by_notice(2);
  EXPECT_THAT(scenario.until_round_after(before, 150ms), IsEmpty());
  EXPECT_THAT(scenario.until_round_after(before, 1s), SizeIs(3));
}

TEST(Scenarios, R5_AWorkerThatCouldNotBeStartedWaitsForNoNotice) {
  Setting setting = cluster_of(3, NodeRange(3, 3));
  setting.slow_workers = 0;
  Scenario scenario(setting);
  scenario.after(1s);
  scenario->cannot_start_worker(2);
  scenario.after(100ms);
  EXPECT_THAT(scenario->running(), Not(Contains(0)));
}

TEST(Scenarios, R5_AWorkerThatLostItsPeerIsNotTheCulpritWhereAnotherNodeTellsOfOne) {
  Scenario scenario(cluster_of(3, NodeRange(3, 3), 0));
  scenario.after(1s);
  scenario->lose_peer(0);
  scenario.after(100ms);
  scenario->fail_worker(1);
  scenario.after(10s);
  EXPECT_THAT(scenario->finished(), UnorderedElementsAre(Pair(0, 3), Pair(1, 3), Pair(2, 3)));
}

TEST(Scenarios, R5_AWorkerThatLostItsPeerPaysNotForTheNodeThatIsLost) {
  Scenario scenario(cluster_of(3, NodeRange(2, 3), 0));
  scenario.after(1s);
  scenario->lose_peer(0);
  scenario->kill_both(2);
  scenario.after(10s);
  EXPECT_THAT(scenario->running(), SizeIs(2));
}

TEST(Scenarios, R5_AWorkerThatLostItsPeerIsTheCulpritWhereNothingExplainsIt) {
  Scenario scenario(cluster_of(3, NodeRange(3, 3), 0));
  scenario.after(1s);
  scenario->lose_peer(0);
  scenario.after(10s);
  EXPECT_THAT(scenario->finished(), UnorderedElementsAre(Pair(0, 75), Pair(1, 75), Pair(2, 75)));
}

TEST(Scenarios, R5_ANoticeToOneNodePaysForNoFailureOfAnother) {
  Scenario scenario(cluster_of(3, NodeRange(2, 3), 0));
  scenario.after(5s);
  scenario->tell_to_stop(2);
  scenario.after(200ms);
  scenario->end_worker_by_notice(1);
  scenario.after(10s);
  EXPECT_THAT(scenario->finished(), UnorderedElementsAre(Pair(0, 143), Pair(1, 143), Pair(2, 143)));
}

TEST(Scenarios, R6_AJobIsNotSavedWhereTheWorkersOfOneNodeWereLost) {
  Setting setting = cluster_of(3, NodeRange(3, 3));
  setting.forgetful_workers = 0;
  Scenario scenario(setting);
  scenario.after(1s);
  scenario->kill_both(2);
  scenario->give_notice(1);
  scenario.after(20s);
  EXPECT_THAT(scenario->finished(), UnorderedElementsAre(Pair(0, 143), Pair(1, 143)));
}

TEST(Scenarios, R3_ALateBootstrapLeaderLeadsAndTheOthersAreOrderedByHost) {
  Scenario scenario(cluster_of(3, NodeRange(3, 3)));
  scenario.after(1s);
  EXPECT_THAT(scenario->running(), ElementsAre(0, 1, 2));
  const auto& places = scenario->places(scenario->round());
  EXPECT_EQ(places.at(0).first_rank, 0);
  EXPECT_EQ(places.at(1).first_rank, 1);  // n0 has one worker, n1 has two
  EXPECT_EQ(places.at(2).first_rank, 3);
  EXPECT_EQ(places.at(2).world_size, 4);
}

TEST(Scenarios, R9_LessThanMaxWaitForTheLastCall) {
  Scenario scenario(cluster_of(3, NodeRange(2, 4)));
  scenario.after(1s);
  EXPECT_THAT(scenario->running(), IsEmpty());
  scenario.after(3s);
  EXPECT_THAT(scenario->running(), SizeIs(3));
}

TEST(Scenarios, R9_WhoComesWhenAllPlacesAreTakenStandsBy) {
  Scenario scenario(cluster_of(4, NodeRange(3, 3)));
  scenario.after(5s);
  EXPECT_THAT(scenario->running(), SizeIs(3));
  EXPECT_EQ(scenario->rounds_started(), 1);
}

TEST(Scenarios, R5_AFailureBeyondTheBudgetEndsTheJobWithTheWorkersStatusOnEveryNode) {
  Scenario scenario(cluster_of(3, NodeRange(3, 3), 1));
  scenario.after(1s);
  scenario->fail_worker(1);
  scenario.after(10s);
  EXPECT_THAT(scenario->running(), SizeIs(3));
  scenario->fail_worker(2);
  scenario.after(20s);
  EXPECT_THAT(scenario->finished(), UnorderedElementsAre(Pair(0, 3), Pair(1, 3), Pair(2, 3)));
}

/// Workers end with their node's lease, and their peers on other nodes report it first.
TEST(Scenarios, R5_AFailureWhileAnotherNodeIsSilentUsesNothingUp) {
  Scenario scenario(cluster_of(3, NodeRange(2, 3), 0));
  scenario.after(5s);
  scenario.isolate({2});
  scenario.after(2s);
  scenario->fail_worker(1);
  scenario.after(10s);
  EXPECT_THAT(scenario->running(), ElementsAre(0, 1));
}

TEST(Scenarios, R5_TheBudgetOutlivesTheLeader) {
  Scenario scenario(cluster_of(3, NodeRange(2, 3), 1));
  scenario.after(1s);
  scenario->fail_worker(1);
  scenario.after(10s);
  scenario->kill_agent(0);
  scenario.after(10s);
  EXPECT_EQ(scenario->newest_term(), 2);
  scenario->fail_worker(2);
  scenario.after(20s);
  EXPECT_THAT(scenario->finished(), UnorderedElementsAre(Pair(1, 3), Pair(2, 3)));
}

TEST(Scenarios, R6_AJobThatSucceedsEndsWithZeroEverywhere) {
  Scenario scenario(cluster_of(3, NodeRange(3, 3), 0, 5s));
  scenario.after(10s);
  EXPECT_THAT(scenario->finished(), UnorderedElementsAre(Pair(0, 0), Pair(1, 0), Pair(2, 0)));
}

TEST(Scenarios, R6_ANodeLostAfterItSucceededIsNoFailure) {
  Scenario scenario(cluster_of(2, NodeRange(2, 2), 0, 5s));
  scenario.after(1s);
  scenario->succeed(1);
  scenario.after(100ms);
  scenario->kill_agent(1);
  scenario.after(20s);
  EXPECT_THAT(scenario->finished(), UnorderedElementsAre(Pair(0, 0)));
  EXPECT_EQ(scenario->rounds_started(), 1);
}

// Nodes that were told have left, and with them the leader's majority.
TEST(Scenarios, R6_TheLastToHearOfTheEndIsTold) {
  Scenario scenario(cluster_of(4, NodeRange(2, 2), 3, 10s));
  scenario.after(1s);
  scenario->kill_agent(1);  // the next round, of ten seconds, has a spare that votes
  scenario.after(9s);
  scenario.isolate({3});
  scenario.after(2800ms);
  scenario->network().mend_all();
  scenario.after(20s);
  EXPECT_THAT(scenario->finished(), UnorderedElementsAre(Pair(0, 0), Pair(2, 0), Pair(3, 0)));
}

// The other half is done long before the network heals, and has no voter left to tell.
TEST(Scenarios, R6_ANodeThatWasCutOffAsLongAsItLooksForALeaderHearsOfTheEnd) {
  struct Cut {
    int nodes;
    NodeRange range;
    std::set<int> off;
  };
  const std::vector<Cut> cuts = {
      {.nodes = 2, .range = NodeRange(1, 2), .off = {1}},
      {.nodes = 4, .range = NodeRange(2, 4), .off = {2, 3}},
      {.nodes = 4, .range = NodeRange(2, 4), .off = {3}},
      {.nodes = 5, .range = NodeRange(2, 5), .off = {0, 1}}};
  for (const Cut& cut : cuts) {
    for (std::uint64_t seed = 1; seed <= 20 && !testing::Test::HasFailure(); ++seed) {
      Scenario scenario(cluster_of(cut.nodes, cut.range, 3, 5s), seed);
      scenario.after(3s);
      scenario.isolate(cut.off);
      scenario.after(30s);
      scenario->network().mend_all();
      scenario.after(40s);
      // The cluster's own random faults may strike a leader whose workers are done.
      int killed = 0;
      for (int node = 0; node < cut.nodes; ++node) {
        if (!scenario->finished().contains(node) && !scenario->is_alive(node)) ++killed;
      }
      if (killed > 0) continue;
      EXPECT_THAT(scenario->finished(), AllOf(SizeIs(cut.nodes), Each(Pair(_, 0))))
          << cut.nodes << " nodes, seed " << seed;
    }
  }
}

TEST(Scenarios, R6_ALeaderWaitsForNobodyWhoIsBackOrIsKnownToBeDead) {
  Scenario scenario(cluster_of(4, NodeRange(2, 4), 3, 5s));
  scenario.after(1s);
  scenario->kill_agent(3);
  scenario.after(1s);
  scenario.isolate({2});
  scenario.after(4s);
  scenario->network().mend_all();
  scenario.after(10s);
  EXPECT_THAT(scenario->finished(), UnorderedElementsAre(Pair(0, 0), Pair(1, 0), Pair(2, 0)));
}

// The leader hears that all have succeeded, but no node hears the leader. It is in the next round
// as well, and then alone.
TEST(Scenarios, R6_AnEndThatNobodyHeardOfIsForgottenInTheNextRound) {
  Scenario scenario(cluster_of(5, NodeRange(3, 5), 3, 10s), 3);
  scenario.after(9s + announced_within(3s));
  scenario.silence({0});
  scenario.after(5s);
  ASSERT_THAT(scenario->running(), UnorderedElementsAre(1, 2, 3, 4));
  scenario->network().mend_all();
  scenario.after(2s);
  ASSERT_THAT(scenario->running(), UnorderedElementsAre(0, 1, 2, 3, 4));
  scenario.isolate({0});
  scenario.after(60s);
  EXPECT_THAT(
      scenario->finished(),
      UnorderedElementsAre(Pair(0, 75), Pair(1, 0), Pair(2, 0), Pair(3, 0), Pair(4, 0)));
}

// It waits for its own turn, and no node can reach it until then.
TEST(Scenarios, ANewLeaderCallsThoseWhoHaveNotCome) {
  Scenario scenario(cluster_of(5, NodeRange(3, 5)));
  scenario.after(5s);
  for (const int other : {1, 2, 3}) {
    scenario->network().cut(4, other);
    scenario->network().cut(other, 4);
  }
  const RoundId before = scenario->round();
  scenario->kill_agent(0);
  scenario.after(1s);
  scenario->network().mend_all();
  EXPECT_THAT(scenario.until_round_after(before, 1s), UnorderedElementsAre(1, 2, 3, 4));
}

// The spare comes back just when the leader has lost the node that runs, whose workers take a
// moment to end.
TEST(Scenarios, R2_ALeaderWithoutAMajorityWaitsForWhatItGranted) {
  for (std::uint64_t seed = 1; seed <= 600 && !testing::Test::HasFailure(); ++seed) {
    Scenario scenario(cluster_of(4, NodeRange(2, 2)), seed);
    scenario.after(1s);
    scenario->kill_agent(1);  // the next round has a spare that votes
    scenario.after(1s);
    ASSERT_THAT(scenario->running(), ElementsAre(0, 2));
    scenario.isolate({3});
    scenario.after(5s);
    scenario.isolate({2});
    scenario.after(2400ms + std::chrono::milliseconds(seed));
    scenario->network().mend(0, 3);
    scenario->network().mend(3, 0);
    scenario.after(10s);
    EXPECT_THAT(scenario->running(), UnorderedElementsAre(0, 3));
  }
}

TEST(Scenarios, E6_ASpareTakesOverAfterAKill) {
  Scenario scenario(cluster_of(4, NodeRange(3, 3)));
  scenario.after(1s);
  scenario->kill_agent(2);
  scenario.after(500ms);
  EXPECT_THAT(scenario->running(), ElementsAre(0, 1, 3));
}

TEST(Scenarios, E6_AJobShrinksToItsLastNodeAsLongAsDeathsAreProved) {
  Scenario scenario(cluster_of(4, NodeRange(1, 4)));
  scenario.after(5s);
  for (const int victim : {0, 1, 2}) {
    scenario->kill_agent(victim);
    scenario.after(10s);
  }
  EXPECT_THAT(scenario->running(), ElementsAre(3));
}

TEST(Scenarios, E7_TwoFixedNodesOfWhichOneIsSilentEndWithoutAMajority) {
  Scenario scenario(cluster_of(2, NodeRange(2, 2)));
  scenario.after(5s);
  scenario.isolate({1});
  scenario.after(90s);
  EXPECT_THAT(scenario->finished(), UnorderedElementsAre(Pair(0, 75), Pair(1, 75)));
}

TEST(Scenarios, E8_OfTwoNodesTheLeaderGoesOnAloneWhereOneMayRun) {
  Scenario scenario(cluster_of(2, NodeRange(1, 2)));
  scenario.after(5s);
  const RoundId before = scenario->round();
  scenario.isolate({1});
  EXPECT_THAT(scenario.until_round_after(before, 4s), ElementsAre(0));
  scenario.after(60s);
  EXPECT_THAT(scenario->running(), ElementsAre(0));
  EXPECT_THAT(scenario->finished(), UnorderedElementsAre(Pair(1, 75)));
}

// Half of four can lead only when the leader's death can no longer be proved in time. The follower
// that is left has called the leader again by then, was told to wait there, and must not try the
// lost nodes first.
TEST(Scenarios, E8_OfFourNodesTheLeaderGoesOnWithOneAsSoonAsHalfMay) {
  constexpr auto kHalfMay =
      3000ms + 3000ms + 450ms * 5 / 4;  // its lease, then until it is forgotten
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    Scenario scenario(cluster_of(4, NodeRange(2, 4)), seed);
    scenario.after(5s);
    const RoundId before = scenario->round();
    scenario.isolate({1});
    scenario.isolate({2});
    EXPECT_THAT(scenario.until_round_after(before, kHalfMay + 150ms), UnorderedElementsAre(0, 3))
        << seed;
  }
}

/// A machine loses power, and the same command line runs there again after `silence`.
void reset(Scenario& scenario, int node, Duration silence) {
  scenario->power_off(node);
  scenario.after(silence);
  scenario->network().set_up(node, true);
  scenario->start(node);
}

TEST(Scenarios, ALeaderThatForgotJoinsTheJobThatItBegan) {
  for (const Duration silence : {100ms, 300ms, 900ms, 3000ms, 20'000ms}) {
    Scenario scenario(cluster_of(3, NodeRange(2, 3)));
    scenario.after(15s);
    const Incarnation instance = scenario->rendezvous(1).member().instance().bootstrap_leader;
    reset(scenario, 0, silence);
    scenario.after(6s);
    EXPECT_THAT(scenario->running(), UnorderedElementsAre(0, 1, 2)) << to_seconds(silence);
    EXPECT_EQ(scenario->rendezvous(0).member().instance().bootstrap_leader, instance);
    EXPECT_EQ(scenario->round().term, 2);
  }
}

// A lost pod is started under another address, where no kernel can be asked about it.
TEST(Scenarios, ASpareJoinsNoBootstrapLeaderOfTheJobThatItStandsByFor) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    for (const Duration back : {50ms, 200ms, 400ms, 600ms, 1000ms, 2000ms}) {
      SCOPED_TRACE(fmt::format("seed {}, back after {} s", seed, to_seconds(back)));
      Scenario scenario(cluster_of(3, NodeRange(2, 2)), seed);
      scenario.after(5s);
      ASSERT_THAT(scenario->running(), ElementsAre(0, 1));
      scenario->power_off(0);
      scenario.after(back);
      scenario->network().set_up(0, true);
      scenario->start(0);
      scenario.after(15s);
      EXPECT_THAT(scenario->running(), SizeIs(2));
      EXPECT_THAT(scenario->finished(), IsEmpty());
      if (HasFailure()) return;
    }
  }
}

// It knows that the job has begun, and calls several times a second at the node that bootstrapped
// it again, which has no other node to wait for. Once that instance has begun, the spare joins it.
TEST(Scenarios, ASpareThatIsLeftKeepsNoNodeFromBeginningAgain) {
  for (const NodeRange& nodes : {NodeRange(2, 2), NodeRange(1, 2)}) {
    for (const Duration apart : {0ms, 20ms, 500ms, 2000ms}) {
      SCOPED_TRACE(fmt::format("{} nodes at least, {} s apart", nodes.min(), to_seconds(apart)));
      Scenario scenario(cluster_of(3, nodes));
      scenario.after(5s);
      scenario->kill_agent(2);
      scenario.after(1s);
      scenario->start(2);  // after the first round, so that it has no vote
      scenario.after(15s);
      ASSERT_THAT(scenario->running(), ElementsAre(0, 1));
      scenario->power_off(0);
      scenario->power_off(1);
      scenario.after(1s);
      for (const int node : {0, 1}) {
        scenario->network().set_up(node, true);
        scenario->start(node);
        scenario.after(apart);
      }
      scenario.after(10s);
      EXPECT_THAT(scenario->running(), ElementsAre(0, 1));
      scenario->kill_agent(1);
      scenario.after(1s);
      EXPECT_THAT(scenario->running(), ElementsAre(0, 2));
    }
  }
}

TEST(Scenarios, R6_ALeaderWaitsForNobodyWhoseNodeWasStartedAgain) {
  for (const int nodes : {2, 3}) {
    for (int lost = 0; lost < nodes; ++lost) {
      for (const Duration silence : {500ms, 5000ms}) {
        Setting setting = cluster_of(nodes, NodeRange(1, nodes), 3, 8s);
        setting.moves = true;
        setting.has_fence = true;
        Scenario scenario(setting);
        scenario.after(1s);
        reset(scenario, lost, silence);
        scenario.after(16s);
        EXPECT_THAT(scenario->finished(), AllOf(SizeIs(nodes), Each(Pair(_, 0))))
            << "node " << lost << " of " << nodes << ", silent for " << to_seconds(silence) << " s";
      }
    }
  }
}

TEST(Scenarios, E9_OfTwoFixedNodesEitherComesBackAfterAnyTime) {
  for (const int node : {0, 1}) {
    for (const Duration silence : {100ms, 1000ms, 3000ms, 20'000ms}) {
      Scenario scenario(cluster_of(2, NodeRange(2, 2)));
      scenario.after(5s);
      reset(scenario, node, silence);
      scenario.after(2s);
      EXPECT_THAT(scenario->running(), UnorderedElementsAre(0, 1)) << node << to_seconds(silence);
    }
  }
}

// Node 2 comes to node 1 when the leader is missed, and loses power before it votes. While node 1
// waited for that vote it called no other node, and the others began the job again.
TEST(Scenarios, R2_ANodeThatDiesWhileItWaitsKeepsNobodyFromTellingOfTheJob) {
  for (int ms = 0; ms < 150; ms += 6) {
    Setting setting = cluster_of(3, NodeRange(2, 3));
    setting.last_call = 12s;
    Scenario scenario(setting);
    scenario.after(15s);
    scenario->power_off(0);
    scenario.after(3380ms + std::chrono::milliseconds(ms));
    scenario->power_off(2);
    scenario.after(1s);
    for (const int node : {0, 2}) {
      scenario->network().set_up(node, true);
      scenario->start(node);
    }
    scenario.after(20s);
    const std::vector<int> running = scenario->running();
    const bool has_led = scenario->newest_term() > 1;
    EXPECT_THAT(running, SizeIs(has_led ? 3 : 0)) << ms;
  }
}

/// What node `asked` reports about the wait while those of `lost` have no power.
QuorumLoss loss_of(const Setting& setting, const std::set<int>& lost, int asked) {
  Scenario scenario(setting);
  scenario.after(5s);
  for (const int node : lost)
    scenario->power_off(node);
  scenario.after(7s);
  EXPECT_THAT(scenario->running(), IsEmpty());
  return scenario->rendezvous(asked).member().loss();
}

TEST(Scenarios, E7_NodesThatWaitReportForWhichNodesAndOnlyWhatWouldEndIt) {
  const std::string n0_of_two =
      "n0 of the last round's 2 nodes is missing and may still run, so n1 cannot continue without "
      "it";
  // Its kernel can be asked, since half of a fixed job blocks every quorum.
  QuorumLoss loss = loss_of(cluster_of(2, NodeRange(2, 2)), {0}, 1);
  EXPECT_EQ(loss.why, n0_of_two);
  EXPECT_EQ(
      loss.ends,
      "it is heard again, or ddprun starts again on the machine of n0, under the same host name "
      "and address and with nothing of the job left there");
  // A leader that could continue alone may have done so.
  loss = loss_of(cluster_of(2, NodeRange(1, 2)), {0}, 1);
  EXPECT_EQ(loss.why, n0_of_two);
  EXPECT_EQ(
      loss.ends,
      "it is heard again (starting ddprun there again does not end it: n1 was started without "
      "--trust-replacement=on and --fence-dir)");
  // Two of three may continue without the third, whatever is proved of one of them.
  loss = loss_of(cluster_of(3, NodeRange(3, 3)), {0, 2}, 1);
  EXPECT_EQ(
      loss.why,
      "n0 and n2 of the last round's 3 nodes are missing and may still run, so n1 cannot continue "
      "without them");
  EXPECT_EQ(loss.ends, "enough of them are heard again");
  // The nodes for which the others wait are named as well.
  loss = loss_of(cluster_of(5, NodeRange(2, 5)), {0, 1, 2}, 3);
  EXPECT_EQ(
      loss.why,
      "n0, n1 and n2 of the last round's 5 nodes are missing and may still run, so n3 and n4 "
      "cannot continue without them");
  EXPECT_EQ(loss.ends, "enough of them are heard again");
}

// It hears its followers, which may vote only later: no message says that they are missing.
TEST(Scenarios, E7_ALeaderWithHalfOfItsNodesSaysNothingBeforeItGoesOn) {
  Scenario scenario(cluster_of(4, NodeRange(2, 4)));
  scenario.after(5s);
  scenario->power_off(2);
  scenario->power_off(3);
  for (int tenth = 0; tenth < 80; ++tenth) {
    scenario.after(100ms);
    for (const int node : {0, 1}) {
      EXPECT_EQ(scenario->rendezvous(node).member().loss(), QuorumLoss());
    }
  }
  EXPECT_THAT(scenario->running(), UnorderedElementsAre(0, 1));
}

// A node that came when all slots were taken has no vote: the others do not wait for it, and it
// knows for which nodes they wait even after they are gone.
TEST(Scenarios, E7_ANewcomerIsNotMissedAndKeepsWhatItWasTold) {
  Scenario scenario(cluster_of(3, NodeRange(2, 2)));
  scenario.come_late(2);
  ASSERT_THAT(scenario->running(), UnorderedElementsAre(0, 1));
  scenario->power_off(1);
  scenario.after(12s);
  const QuorumLoss loss = scenario->rendezvous(0).member().loss();
  EXPECT_THAT(loss.ends, HasSubstr("on the machine of n1, under"));
  EXPECT_EQ(scenario->rendezvous(2).member().loss(), loss);
  scenario.after(10s);
  EXPECT_EQ(scenario->rendezvous(2).member().loss(), loss);
  scenario->power_off(0);
  scenario.after(3s);
  EXPECT_EQ(scenario->rendezvous(2).member().loss(), loss);
  scenario.after(12s);
  EXPECT_EQ(
      scenario->rendezvous(2).member().loss().why,
      "none of the nodes that took part is heard by n2");
}

// Not only by nodes that have no leader either.
TEST(Scenarios, ASpareBeginsAgainOnceNoNodeOfTheJobIsHeard) {
  Scenario scenario(cluster_of(3, NodeRange(2, 2)));
  scenario.come_late(2);
  ASSERT_THAT(scenario->running(), UnorderedElementsAre(0, 1));
  scenario->power_off(0);
  scenario->power_off(1);
  scenario.after(1s);
  scenario->network().set_up(0, true);
  scenario->start(0);
  scenario.after(25s);
  EXPECT_THAT(scenario->running(), IsEmpty());
  scenario.after(20s);
  EXPECT_THAT(scenario->running(), UnorderedElementsAre(0, 2));
}

// The message does not tell a node that waits here to be started again.
TEST(Scenarios, E7_NobodyIsToldToReplaceWhoIsHere) {
  const Setting setting = cluster_of(4, NodeRange(4, 4));
  Scenario scenario(setting);
  scenario.after(5s);
  scenario->power_off(2);
  scenario->power_off(3);
  scenario.after(15s);
  for (const int node : {0, 1}) {
    EXPECT_EQ(
        scenario->rendezvous(node).member().loss().ends,
        "enough of them are heard again, or ddprun starts again on the machine of n2 and n3, under "
        "the same host name and address and with nothing of the job left there");
  }
}

TEST(Scenarios, E7_NodesThatWaitReportAReplacementOnlyIfItIsTrusted) {
  Setting trusting = cluster_of(2, NodeRange(1, 2));
  trusting.trusts_replacement = true;
  EXPECT_EQ(loss_of(trusting, {0}, 1).ends, "it is heard again, or ddprun starts in place of n0");
  Setting setting = cluster_of(2, NodeRange(1, 2));
  setting.has_fence = true;
  Scenario scenario(setting);  // continues, and prints nothing
  scenario.after(5s);
  scenario->power_off(0);
  scenario.after(7s);
  EXPECT_THAT(scenario->running(), ElementsAre(1));
  EXPECT_EQ(scenario->rendezvous(1).member().loss(), QuorumLoss());
}

// Its kernel lived on, and repeats what had not been delivered.
TEST(Scenarios, ANodeRankIsNotRefusedForWhatItsDeadHolderHadSaid) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    Setting setting = cluster_of(3, NodeRange(3, 3));
    setting.has_ranks = true;
    Scenario scenario(setting, seed);
    scenario.after(1s);
    scenario.isolate({1});
    scenario.after(300ms);
    scenario->kill_all(1);
    scenario->network().mend_all();
    scenario->start(1);
    scenario.after(6s);
    EXPECT_THAT(scenario->running(), UnorderedElementsAre(0, 1, 2));
  }
}

// Node 1 is cut off and lives; node 2 is started in its place, and waits for it with node 0. The
// leader at the time when node 1 is back needs its vote, and must not refuse it in favor of node 2.
TEST(Scenarios, ANodeThatIsBackKeepsItsRankFromWhoWasStartedInItsPlace) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    Setting setting = cluster_of(3, NodeRange(2, 2));
    setting.has_ranks = true;
    setting.twin_of = 1;
    Scenario scenario(setting, seed);
    scenario->power_off(2);
    scenario.after(5s);
    scenario.isolate({1});
    scenario.after(6s);
    scenario->network().set_up(2, true);
    scenario->start(2);
    scenario.after(3s);
    EXPECT_THAT(scenario->running(), IsEmpty());
    scenario->network().mend_all();
    scenario.after(10s);
    EXPECT_THAT(scenario->running(), UnorderedElementsAre(0, 1)) << seed;
    EXPECT_FALSE(scenario->is_alive(2)) << "it is refused";
  }
}

TEST(Scenarios, ANodeThatWasReplacedWhileItWasCutOffIsToldSo) {
  Setting setting = cluster_of(4, NodeRange(3, 3));
  setting.has_ranks = true;
  setting.twin_of = 1;
  Scenario scenario(setting);
  scenario->power_off(3);
  scenario.after(5s);
  scenario.isolate({1});
  scenario.after(6s);
  scenario->network().set_up(3, true);
  scenario->start(3);
  scenario.after(5s);
  EXPECT_THAT(scenario->running(), UnorderedElementsAre(0, 2, 3));
  scenario->network().mend_all();
  scenario.after(5s);
  EXPECT_FALSE(scenario->is_alive(1)) << "it is refused";
  EXPECT_THAT(scenario->running(), UnorderedElementsAre(0, 2, 3));
}

TEST(Scenarios, ANodeRankThatTwoHaveEndsAJobThatWaitsForEachRank) {
  Setting setting = cluster_of(3, NodeRange(3, 3));
  setting.has_ranks = true;
  setting.twin_of = 1;
  Scenario scenario(setting);
  scenario.after(8s);
  EXPECT_THAT(scenario->finished(), UnorderedElementsAre(Pair(0, 2), Pair(1, 2), Pair(2, 2)));
}

// Users write this who have read that --node-rank is only for the static backend.
TEST(Scenarios, AWishForOneNodeRankOnAllNodesHindersNobody) {
  Setting setting = cluster_of(3, NodeRange(3, 3));
  setting.wishes_for_rank_0 = true;
  Scenario scenario(setting);
  scenario.after(5s);
  EXPECT_THAT(scenario->running(), UnorderedElementsAre(0, 1, 2));
  for (const int node : {2, 0}) {
    reset(scenario, node, 1s);
    scenario.after(10s);
    EXPECT_THAT(scenario->running(), UnorderedElementsAre(0, 1, 2)) << node;
  }
}

TEST(Scenarios, E9_ALeaderThatMayHaveLedOnAloneIsWaitedForUnlessItIsReplaced) {
  for (const bool trusts : {false, true}) {
    Setting setting = cluster_of(2, NodeRange(1, 2));
    setting.trusts_replacement = trusts;
    Scenario scenario(setting);
    scenario.after(5s);
    reset(scenario, 0, 10s);
    scenario.after(5s);
    EXPECT_THAT(scenario->running(), SizeIs(trusts ? 2 : 0));
  }
}

// Node 0 continues without node 1, which it cannot hear, and dies when node 2 has joined it. Node 1
// finds that all others of the round that it knows, which is node 0, are replaced.
TEST(Scenarios, E9_AReplacedLeaderMayHaveLedOnWithOneWhoLives) {
  Setting setting = cluster_of(3, NodeRange(1, 3));
  setting.trusts_replacement = true;
  Scenario scenario(setting);
  scenario->power_off(2);
  scenario.after(15s);
  EXPECT_THAT(scenario->running(), ElementsAre(0, 1));
  scenario.isolate({1});
  scenario.after(10s);
  scenario->network().set_up(2, true);
  scenario->start(2);
  scenario.after(5s);
  EXPECT_THAT(scenario->running(), UnorderedElementsAre(0, 2));
  scenario.silence({2});
  scenario.deafen({2});
  scenario->kill_all(0);
  scenario->network().mend(0, 1);
  scenario->network().mend(1, 0);
  scenario->start(0);
  scenario.after(20s);
  EXPECT_THAT(scenario->running(), IsEmpty()) << "nobody knows whether node 2 lives";
  scenario->network().mend_all();
}

// The new pod joins before the leader has lost the old one, and its majority with it.
TEST(Scenarios, E9_WhoeverReplacesANodeBeforeThatIsMissedCounts) {
  for (const int node : {0, 1}) {
    Setting setting = cluster_of(2, NodeRange(2, 2));
    setting.trusts_replacement = true;
    setting.moves = true;
    Scenario scenario(setting);
    scenario.after(5s);
    reset(scenario, node, 300ms);
    scenario.after(6s);
    EXPECT_THAT(scenario->running(), UnorderedElementsAre(0, 1)) << node;
  }
}

TEST(Scenarios, OneBlowToAllProcessesOfALeaderIsAProof) {
  Scenario scenario(cluster_of(2, NodeRange(1, 2)));
  scenario.after(5s);
  const RoundId before = scenario->round();
  scenario->kill_all(0);
  EXPECT_THAT(scenario.until_round_after(before, 50ms), ElementsAre(1));
}

TEST(Scenarios, E10_EitherHalfGoesOnWithTheFence) {
  Setting setting = cluster_of(2, NodeRange(1, 2));
  setting.has_fence = true;
  Scenario scenario(setting);
  scenario.after(5s);
  scenario->power_off(0);
  scenario.after(6s);
  EXPECT_THAT(scenario->running(), ElementsAre(1));
}

TEST(Scenarios, E7_TwoNodesThatFindEachOtherAgainGoOn) {
  Scenario scenario(cluster_of(2, NodeRange(1, 2)));
  scenario.after(5s);
  scenario.isolate({1});
  scenario.after(10s);
  scenario->network().mend_all();
  scenario.after(15s);
  EXPECT_THAT(scenario->running(), SizeIs(2));
}

TEST(Scenarios, R8_AnIsolatedNodeEndsItsWorkersByItselfAndReturns) {
  Scenario scenario(cluster_of(5, NodeRange(3, 5)));
  scenario.after(5s);
  scenario.isolate({4});
  scenario.after(5s);
  EXPECT_THAT(scenario->running(), ElementsAre(0, 1, 2, 3));
  scenario->network().mend_all();
  scenario.after(15s);
  EXPECT_THAT(scenario->running(), SizeIs(5));
}

TEST(Scenarios, R1_ALeaderThatIsIsolatedFencesItselfBeforeAnotherLeads) {
  Scenario scenario(cluster_of(3, NodeRange(2, 3)));
  scenario.after(5s);
  scenario.isolate({0});
  scenario.after(6s);
  EXPECT_THAT(scenario->running(), ElementsAre(1, 2));
  EXPECT_EQ(scenario->newest_term(), 2);
}

TEST(Scenarios, R1_TheNextLeaderMayBeLostAsWell) {
  Scenario scenario(cluster_of(3, NodeRange(1, 3)));
  scenario.after(5s);
  scenario->kill_agent(0);
  scenario.after(2s);
  EXPECT_THAT(scenario->running(), ElementsAre(1, 2));
  scenario->kill_agent(1);
  scenario.after(2s);
  EXPECT_THAT(scenario->running(), ElementsAre(2));
}

TEST(Scenarios, R8_AFrozenAgentFindsItsWorkersEndedAndItsPlaceTaken) {
  Scenario scenario(cluster_of(4, NodeRange(3, 3)));
  scenario.after(5s);
  scenario->freeze(1, 20s);
  scenario.after(10s);
  EXPECT_THAT(scenario->running(), ElementsAre(0, 3, 2));
  scenario.after(20s);
  EXPECT_THAT(scenario->running(), ElementsAre(0, 3, 2));
}

TEST(Scenarios, R5_ANodeThatJoinsRestartsTheJobButUsesNothingUp) {
  Scenario scenario(cluster_of(2, NodeRange(1, 3), 0));
  scenario.after(5s);
  EXPECT_THAT(scenario->running(), SizeIs(2));
}

TEST(Scenarios, TheLeaderWaitsForTheLastOutputOfAFailureThatEndsTheJobUnlessItsNodeIsGone) {
  for (const bool is_lost : {false, true}) {
    Setting setting = cluster_of(3, NodeRange(3, 3), 0);
    setting.has_own_console = true;
    Scenario scenario(setting);
    scenario.after(5s);
    scenario->fail_worker(2);
    scenario.after(10ms);
    if (is_lost) scenario->kill_both(2);
    scenario.after(2s);
    EXPECT_THAT(scenario->log(), Contains(HasSubstr("shows the failure")).Times(is_lost ? 0 : 1));
    EXPECT_THAT(scenario->finished(), AllOf(Contains(Pair(0, 3)), Contains(Pair(1, 3))));
  }
}

TEST(Scenarios, ANodeToldToStopLeavesAndTheOthersContinue) {
  Scenario scenario(cluster_of(3, NodeRange(2, 3)));
  scenario.after(5s);
  scenario->tell_to_stop(2);
  scenario.after(10s);
  EXPECT_THAT(scenario->finished(), UnorderedElementsAre(Pair(2, 128 + 15)));
  EXPECT_THAT(scenario->running(), ElementsAre(0, 1));
}

TEST(Scenarios, ANodeToldToStopLeavesAlthoughItsLeaveIsLostOnTheWay) {
  Scenario scenario(cluster_of(3, NodeRange(1, 2)));
  scenario.after(2s);
  scenario.deafen({2});
  scenario->tell_to_stop(2);
  scenario.after(1s);  // it has begun a second connection by then, on which it reports that again
  scenario->network().mend_all();
  scenario.after(10s);
  EXPECT_THAT(scenario->finished(), ElementsAre(Pair(2, 143)));
  EXPECT_THAT(scenario->running(), ElementsAre(0, 1));
}

TEST(Scenarios, ANodeToldToStopBeforeTheFirstRoundLeavesAlone) {
  for (const int leaves : {0, 1}) {
    Scenario scenario(cluster_of(2, NodeRange(3, 3)));
    scenario.after(5s);
    scenario->tell_to_stop(leaves);
    scenario.after(10s);
    EXPECT_THAT(scenario->finished(), ElementsAre(Pair(leaves, 143)));
  }
}

TEST(Scenarios, ALeaderToldToStopLeavesAndTheOthersContinue) {
  Scenario scenario(cluster_of(3, NodeRange(2, 3)));
  scenario.after(5s);
  scenario->tell_to_stop(0);
  scenario.after(10s);
  EXPECT_THAT(scenario->finished(), UnorderedElementsAre(Pair(0, 128 + 15)));
  EXPECT_THAT(scenario->running(), ElementsAre(1, 2));
}

TEST(Scenarios, TheLastButMinNodeToldToStopEndsTheJobEverywhere) {
  Scenario scenario(cluster_of(2, NodeRange(2, 2)));
  scenario.after(5s);
  scenario->tell_to_stop(1);
  scenario.after(10s);
  EXPECT_THAT(scenario->finished(), UnorderedElementsAre(Pair(0, 143), Pair(1, 143)));
}

TEST(Scenarios, ANodeThatComesBackAtTheEndpointJoinsAndBootstrapsNothing) {
  Scenario scenario(cluster_of(3, NodeRange(2, 3)));
  scenario.after(5s);
  scenario->kill_agent(0);
  scenario.after(3s);
  EXPECT_THAT(scenario->running(), ElementsAre(1, 2));
  scenario->start(0);
  scenario.after(10s);
  EXPECT_THAT(scenario->running(), SizeIs(3));
  EXPECT_EQ(scenario->newest_term(), 2);
}

/// The leader of job "a", whose endpoint this was, calls there.
std::vector<Endpoint> calls_of_a_bootstrap_leader(const std::string& job) {
  RendezvousPolicy policy;
  policy.job = job;
  policy.nodes = NodeRange(2, 2);
  RendezvousNode rendezvous(policy);
  Effects effects;
  const TimePoint now = TimePoint() + 1h;
  rendezvous.apply(RendezvousNode::Begin{}, now, effects);
  Redirect redirect;
  redirect.job = "a";
  redirect.instance = {.bootstrap_leader = Incarnation{7}, .bootstrapped_ms = 1};
  redirect.has_begun = true;
  redirect.leadership = {.term = 2, .leader = Incarnation{8}};
  redirect.leader = {.host = "n1", .port = 1};
  rendezvous.apply(RendezvousNode::Received{.link = Link{2}, .message = redirect}, now, effects);
  rendezvous.apply(RendezvousNode::Tick{}, now + 1s, effects);
  std::vector<Endpoint> called;
  for (const Effect& effect : effects) {
    if (const auto* const call = std::get_if<effects::Call>(&effect)) called.push_back(call->to);
  }
  return called;
}

TEST(BootstrapLeader, FollowsTheSurvivorsOfItsOwnJobAlone) {
  EXPECT_THAT(calls_of_a_bootstrap_leader("a"), ElementsAre(Endpoint{.host = "n1", .port = 1}));
  EXPECT_THAT(calls_of_a_bootstrap_leader("b"), IsEmpty());
}

}  // namespace
}  // namespace ddprun::sim
