// How long the job stands still after its leader is lost, in virtual time, for a few hundred orders
// of events each: the nodes that are left run the next round, all of them at once.

#include "tests/sim/scenario.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <iostream>
#include <set>
#include <string>
#include <vector>

namespace ddprun::sim {
namespace {

using namespace std::chrono_literals;
using testing::IsEmpty;
using testing::Not;
using testing::UnorderedElementsAreArray;

constexpr std::uint64_t kSeeds = 600;
constexpr Duration kLease = 3s;
const Duration kMargin = RendezvousPolicy().margin;

// A search's first call that is not accepted, or the heartbeat after which the others miss the
// leader.
constexpr Duration kUnreachable = 700ms;
// A few messages of at most 2 ms each, workers that take 20 ms to end, 60 ms if they are killed.
constexpr Duration kPrompt = 150ms;

class Failover : public testing::Test {
 protected:
  /// Lets `fault` happen at another point between two heartbeats for each seed. `left` run the next
  /// round, no later than `limit` after it.
  static void expect_round(
      const Setting& setting,
      const std::function<void(Scenario&)>& fault,
      const std::vector<int>& left,
      Duration limit) {
    for (std::uint64_t seed = 1; seed <= kSeeds && !HasFailure(); ++seed) {
      Scenario scenario(setting, seed);
      scenario.after(5s + std::chrono::milliseconds(seed * 7 % 600));
      expect_round(scenario, fault, left, limit);
      if (HasFailure()) std::cerr << "seed " << seed << "\n";
    }
  }

  /// As expect_round, whichever nodes run it.
  static void expect_next_round(
      const Setting& setting, const std::function<void(Scenario&)>& fault, Duration limit) {
    for (std::uint64_t seed = 1; seed <= kSeeds && !HasFailure(); ++seed) {
      Scenario scenario(setting, seed);
      scenario.after(5s + std::chrono::milliseconds(seed * 7 % 600));
      const RoundId before = scenario->round();
      fault(scenario);
      EXPECT_THAT(scenario.until_round_after(before, limit), Not(IsEmpty()));
      if (HasFailure()) std::cerr << "seed " << seed << "\n";
    }
  }

  static void expect_round(
      Scenario& scenario,
      const std::function<void(Scenario&)>& fault,
      const std::vector<int>& left,
      Duration limit) {
    fault(scenario);
    const RoundId before = scenario->round();
    const TimePoint since = scenario.now();
    EXPECT_THAT(scenario.until_round_after(before, 20s), UnorderedElementsAreArray(left));
    EXPECT_LE(to_seconds(scenario.now() - since), to_seconds(limit));
  }
};

TEST_F(Failover, TheLeaderIsKilled) {
  const auto fault = [](Scenario& scenario) { scenario->kill_agent(0); };
  expect_round(cluster_of(3, NodeRange(1, 3)), fault, {1, 2}, kPrompt);
  expect_round(cluster_of(5, NodeRange(3, 5)), fault, {1, 2, 3, 4}, kPrompt);
}

// Its lifelines have only just been opened: a round must wait for them.
TEST_F(Failover, TheNextLeaderIsKilledAsSoonAsItsRoundRuns) {
  const auto fault = [](Scenario& scenario) {
    expect_round(
        scenario, [](Scenario& first) { first->kill_agent(0); }, {1, 2}, kPrompt);
    scenario->kill_agent(1);
  };
  expect_round(cluster_of(3, NodeRange(1, 3)), fault, {2}, kPrompt);
}

TEST_F(Failover, TheLeaderIsIsolated) {
  const auto fault = [](Scenario& scenario) { scenario.isolate({0}); };
  const Duration limit = kLease + kMargin + kPrompt;
  expect_round(cluster_of(3, NodeRange(2, 3)), fault, {1, 2}, limit);
  expect_round(cluster_of(5, NodeRange(3, 5)), fault, {1, 2, 3, 4}, limit);
}

TEST_F(Failover, TheNextLeaderIsIsolatedAsWell) {
  const auto fault = [](Scenario& scenario) {
    const auto first = [](Scenario& one) { one.isolate({0}); };
    expect_round(scenario, first, {1, 2, 3, 4}, kLease + kMargin + kPrompt);
    scenario.after(5s);
    scenario.isolate({1});
  };
  const Duration limit = kLease + kMargin + kPrompt;
  expect_round(cluster_of(5, NodeRange(3, 5)), fault, {2, 3, 4}, limit);
}

TEST_F(Failover, TheLeaderAndTheNextAreCutOffTogether) {
  const auto fault = [](Scenario& scenario) { scenario.isolate({0, 1}); };
  const Duration limit = kLease + kMargin + kUnreachable;
  expect_round(cluster_of(5, NodeRange(3, 5)), fault, {2, 3, 4}, limit);
}

TEST_F(Failover, TheLeaderAndTheNextAreNotHeard) {
  const auto fault = [](Scenario& scenario) { scenario.silence({0, 1}); };
  const Duration limit = kLease + kMargin + kUnreachable;
  expect_round(cluster_of(5, NodeRange(3, 5)), fault, {2, 3, 4}, limit);
}

// Nodes that wait for each other, or have just left the node where the others gather.
TEST_F(Failover, MessagesTakeAMoment) {
  constexpr Duration kSlow = 10s;  // a few attempts of a few messages each
  const auto slow_down = [](Scenario& scenario) {
    scenario->network().slowest = 150ms;
    scenario.after(2s);
  };
  const auto kill = [&](Scenario& scenario) {
    slow_down(scenario);
    scenario->kill_agent(0);
  };
  expect_next_round(cluster_of(5, NodeRange(2, 5)), kill, kSlow);
  const auto kill_and_isolate = [&](Scenario& scenario) {
    kill(scenario);
    scenario.isolate({1});
  };
  expect_next_round(cluster_of(5, NodeRange(2, 5)), kill_and_isolate, kLease + kMargin + kSlow);
  const auto isolate = [&](Scenario& scenario) {
    slow_down(scenario);
    scenario.isolate({0, 1, 2});
  };
  expect_next_round(cluster_of(7, NodeRange(2, 7)), isolate, kLease + kMargin + kSlow);
}

// It may send something until its own lease is over.
TEST_F(Failover, TheLeaderAndTheNextHearNobody) {
  const auto fault = [](Scenario& scenario) { scenario.deafen({0, 1}); };
  const Duration limit = kLease + kLease + kMargin + kUnreachable;
  expect_round(cluster_of(5, NodeRange(3, 5)), fault, {2, 3, 4}, limit);
}

}  // namespace
}  // namespace ddprun::sim
