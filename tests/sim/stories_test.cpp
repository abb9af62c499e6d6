// The rules of docs/rendezvous.md as stories of one fault each, in virtual time, on the cores
// themselves. The random schedules (ddprun_sim) tell the stories that nobody thought of.

#include "tests/sim/cluster.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <iostream>
#include <memory>
#include <string>
#include <variant>
#include <vector>

namespace ddprun::sim {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::Pair;
using testing::SizeIs;
using testing::UnorderedElementsAre;

class Stories : public testing::Test {
 protected:
  void begin(int nodes, NodeRange range, int max_restarts = 3, Duration work = 1h) {
    Setting setting;
    setting.nodes = nodes;
    setting.range = range;
    setting.max_restarts = max_restarts;
    setting.work = work;
    cluster_ = std::make_unique<Cluster>(world_, setting);
    cluster_->keeps_log = true;
    for (int node = 0; node < nodes; ++node) {
      world_.in(10ms * node, [this, node] { cluster_->start(node); });
    }
  }

  void after(Duration delay) {
    constexpr std::uint64_t kHappeningsMax = 1'000'000;
    ASSERT_TRUE(
        world_.run(world_.now() + delay, world_.happened() + kHappeningsMax, [] { return false; }));
  }

  /// Cuts a node off from all others, both ways.
  void isolate(int node, int nodes) {
    for (int other = 0; other < nodes; ++other) {
      if (other == node) continue;
      cluster_->network().cut(node, other);
      cluster_->network().cut(other, node);
    }
  }

  void TearDown() override {
    EXPECT_THAT(cluster_->violations(), IsEmpty());
    if (!HasFailure()) return;
    for (const auto& line : cluster_->log()) {
      std::cerr << line << "\n";
    }
  }

  World world_{1};
  std::unique_ptr<Cluster> cluster_;
};

TEST_F(Stories, R3_ALateFounderLeadsAndTheOthersAreOrderedByHost) {
  begin(3, NodeRange(3, 3));
  after(1s);
  EXPECT_THAT(cluster_->running(), ElementsAre(0, 1, 2));
  const auto& places = cluster_->places(cluster_->round());
  EXPECT_EQ(places.at(0).first_rank, 0);
  EXPECT_EQ(places.at(1).first_rank, 1);  // n0 has one worker, n1 has two
  EXPECT_EQ(places.at(2).first_rank, 3);
  EXPECT_EQ(places.at(2).world_size, 4);
}

TEST_F(Stories, R9_LessThanMaxWaitForTheLastCall) {
  begin(3, NodeRange(2, 4));
  after(1s);
  EXPECT_THAT(cluster_->running(), IsEmpty());
  after(3s);
  EXPECT_THAT(cluster_->running(), SizeIs(3));
}

TEST_F(Stories, R9_WhoComesWhenAllPlacesAreTakenStandsBy) {
  begin(4, NodeRange(3, 3));
  after(5s);
  EXPECT_THAT(cluster_->running(), SizeIs(3));
  EXPECT_EQ(cluster_->rounds_started(), 1);
}

TEST_F(Stories, R5_AFailureBeyondTheBudgetEndsTheJobWithTheWorkersStatusOnEveryNode) {
  begin(3, NodeRange(3, 3), 1);
  after(1s);
  cluster_->fail_worker(1);
  after(10s);
  EXPECT_THAT(cluster_->running(), SizeIs(3));
  cluster_->fail_worker(2);
  after(20s);
  EXPECT_THAT(cluster_->finished(), UnorderedElementsAre(Pair(0, 3), Pair(1, 3), Pair(2, 3)));
}

TEST_F(Stories, R5_TheBudgetOutlivesTheLeader) {
  begin(3, NodeRange(2, 3), 1);
  after(1s);
  cluster_->fail_worker(1);
  after(10s);
  cluster_->kill_agent(0);
  after(10s);
  EXPECT_EQ(cluster_->newest_generation(), 2);
  cluster_->fail_worker(2);
  after(20s);
  EXPECT_THAT(cluster_->finished(), UnorderedElementsAre(Pair(1, 3), Pair(2, 3)));
}

TEST_F(Stories, R6_AJobThatSucceedsEndsWithZeroEverywhere) {
  begin(3, NodeRange(3, 3), 0, 5s);
  after(10s);
  EXPECT_THAT(cluster_->finished(), UnorderedElementsAre(Pair(0, 0), Pair(1, 0), Pair(2, 0)));
}

TEST_F(Stories, R6_ANodeLostAfterItSucceededIsNoFailure) {
  begin(2, NodeRange(2, 2), 0, 5s);
  after(1s);
  cluster_->succeed(1);
  after(100ms);
  cluster_->kill_agent(1);
  after(20s);
  EXPECT_THAT(cluster_->finished(), UnorderedElementsAre(Pair(0, 0)));
  EXPECT_EQ(cluster_->rounds_started(), 1);
}

TEST_F(Stories, E6_ASpareTakesOverAfterAKill) {
  begin(4, NodeRange(3, 3));
  after(1s);
  cluster_->kill_agent(2);
  after(500ms);
  EXPECT_THAT(cluster_->running(), ElementsAre(0, 1, 3));
}

TEST_F(Stories, E6_AJobShrinksToItsLastNodeAsLongAsDeathsAreProved) {
  begin(4, NodeRange(1, 4));
  after(5s);
  for (const int victim : {0, 1, 2}) {
    cluster_->kill_agent(victim);
    after(10s);
  }
  EXPECT_THAT(cluster_->running(), ElementsAre(3));
}

TEST_F(Stories, E7_TwoNodesOfWhichOneIsSilentEndWithoutAMajority) {
  begin(2, NodeRange(1, 2));
  after(5s);
  isolate(1, 2);
  after(60s);
  EXPECT_THAT(cluster_->finished(), UnorderedElementsAre(Pair(0, 75), Pair(1, 75)));
}

TEST_F(Stories, E7_TwoNodesThatFindEachOtherAgainGoOn) {
  begin(2, NodeRange(1, 2));
  after(5s);
  isolate(1, 2);
  after(10s);
  cluster_->network().mend_all();
  after(15s);
  EXPECT_THAT(cluster_->running(), SizeIs(2));
}

TEST_F(Stories, R8_AnIsolatedNodeEndsItsWorkersByItselfAndReturns) {
  begin(5, NodeRange(3, 5));
  after(5s);
  isolate(4, 5);
  after(5s);
  EXPECT_THAT(cluster_->running(), ElementsAre(0, 1, 2, 3));
  cluster_->network().mend_all();
  after(15s);
  EXPECT_THAT(cluster_->running(), SizeIs(5));
}

TEST_F(Stories, R1_ALeaderThatIsIsolatedFencesItselfBeforeAnotherLeads) {
  begin(3, NodeRange(2, 3));
  after(5s);
  isolate(0, 3);
  after(6s);
  EXPECT_THAT(cluster_->running(), ElementsAre(1, 2));
  EXPECT_EQ(cluster_->newest_generation(), 2);
}

TEST_F(Stories, R1_TheNextLeaderMayBeLostAsWell) {
  begin(3, NodeRange(1, 3));
  after(5s);
  cluster_->kill_agent(0);
  after(2s);
  EXPECT_THAT(cluster_->running(), ElementsAre(1, 2));
  cluster_->kill_agent(1);
  after(2s);
  EXPECT_THAT(cluster_->running(), ElementsAre(2));
}

TEST_F(Stories, R8_AFrozenAgentFindsItsWorkersEndedAndItsPlaceTaken) {
  begin(4, NodeRange(3, 3));
  after(5s);
  cluster_->freeze(1, 20s);
  after(10s);
  EXPECT_THAT(cluster_->running(), ElementsAre(0, 3, 2));
  after(20s);
  EXPECT_THAT(cluster_->running(), ElementsAre(0, 3, 2));
}

TEST_F(Stories, R5_ANodeThatJoinsRestartsTheJobButUsesNothingUp) {
  begin(2, NodeRange(1, 3), 0);
  after(5s);
  EXPECT_THAT(cluster_->running(), SizeIs(2));
}

TEST_F(Stories, ANodeToldToStopLeavesAndTheOthersGoOn) {
  begin(3, NodeRange(2, 3));
  after(5s);
  cluster_->tell_to_stop(2);
  after(10s);
  EXPECT_THAT(cluster_->finished(), UnorderedElementsAre(Pair(2, 128 + 15)));
  EXPECT_THAT(cluster_->running(), ElementsAre(0, 1));
}

TEST_F(Stories, ALeaderToldToStopLeavesAndTheOthersGoOn) {
  begin(3, NodeRange(2, 3));
  after(5s);
  cluster_->tell_to_stop(0);
  after(10s);
  EXPECT_THAT(cluster_->finished(), UnorderedElementsAre(Pair(0, 128 + 15)));
  EXPECT_THAT(cluster_->running(), ElementsAre(1, 2));
}

TEST_F(Stories, TheLastButMinNodeToldToStopEndsTheJobEverywhere) {
  begin(2, NodeRange(2, 2));
  after(5s);
  cluster_->tell_to_stop(1);
  after(10s);
  EXPECT_THAT(cluster_->finished(), UnorderedElementsAre(Pair(0, 143), Pair(1, 143)));
}

TEST_F(Stories, WhoComesBackAtTheEndpointJoinsAndFoundsNothing) {
  begin(3, NodeRange(2, 3));
  after(5s);
  cluster_->kill_agent(0);
  after(3s);
  EXPECT_THAT(cluster_->running(), ElementsAre(1, 2));
  cluster_->start(0);
  after(10s);
  EXPECT_THAT(cluster_->running(), SizeIs(3));
  EXPECT_EQ(cluster_->newest_generation(), 2);
}

/// Who leads job "a", whose endpoint this was, calls there.
std::vector<Endpoint> calls_of_a_founder(const std::string& job) {
  RendezvousPolicy policy;
  policy.job = job;
  policy.nodes = NodeRange(2, 2);
  Peer peer(policy);
  Effects effects;
  const TimePoint now = TimePoint() + 1h;
  peer.apply(Peer::Begin{}, now, effects);
  const Redirect redirect{.job = "a", .generation = 2, .leader = {.host = "n1", .port = 1}};
  peer.apply(Peer::Received{.link = Link{2}, .message = redirect}, now, effects);
  peer.apply(Peer::Tick{}, now + 1s, effects);
  std::vector<Endpoint> called;
  for (const Effect& effect : effects) {
    if (const auto* const call = std::get_if<effects::Call>(&effect)) called.push_back(call->to);
  }
  return called;
}

TEST(Founder, FollowsTheSurvivorsOfItsOwnJobAlone) {
  EXPECT_THAT(calls_of_a_founder("a"), ElementsAre(Endpoint{.host = "n1", .port = 1}));
  EXPECT_THAT(calls_of_a_founder("b"), IsEmpty());
}

}  // namespace
}  // namespace ddprun::sim
