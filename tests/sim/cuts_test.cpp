// The guarantee of `--lease`, in virtual time: a node that was cut off for less than 0.8 leases,
// once or several times in a row, is in time. Each cut begins at another point between heartbeats.

#include "tests/sim/scenario.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <iostream>
#include <set>

namespace ddprun::sim {
namespace {

using namespace std::chrono_literals;

constexpr int kPhases = 10;
constexpr int kLengths = 8;  // of 0.1 to 0.8 leases

Setting job_of(int nodes, Duration lease) {
  Setting setting = cluster_of(nodes, NodeRange(std::min(nodes, 2), nodes));
  setting.lease = lease;
  return setting;
}

void cut_off(Scenario& scenario, int victim, Duration length) {
  scenario.isolate({victim});
  scenario.after(length);
  scenario->network().mend_all();
}

class Cuts : public testing::TestWithParam<int> {
 protected:
  /// Checks that the first round still runs after cuts of `victim`, which `cut` makes.
  static void expect_nothing_lost(int nodes, Duration lease, int victim, const auto& cut) {
    for (int length = 1; length <= kLengths; ++length) {
      for (int phase = 0; phase < kPhases && !testing::Test::HasFailure(); ++phase) {
        const auto seed =
            static_cast<std::uint64_t>(length) * kPhases + static_cast<std::uint64_t>(phase);
        Scenario scenario(job_of(nodes, lease), seed);
        scenario.after(5s + lease * phase / (10 * kPhases));
        const RoundId before = scenario->round();
        ASSERT_TRUE(scenario->is_whole());
        cut(scenario, victim, lease * length / 10);
        scenario.after(2 * lease);
        EXPECT_TRUE(scenario->round() == before && scenario->is_whole());
        if (HasFailure()) {
          std::cerr << "nodes " << nodes << ", lease " << to_seconds(lease) << ", node " << victim
                    << " cut off for 0." << length << " leases, seed " << seed << "\n";
        }
      }
    }
  }
};

TEST_P(Cuts, OneThatIsShortLosesNobody) {
  for (const Duration lease : {1s, 3s, 10s}) {
    for (const int victim : {0, 1}) {
      expect_nothing_lost(GetParam(), lease, victim, cut_off);
    }
  }
}

TEST_P(Cuts, SeveralInARowCountAsOne) {
  const auto cut_twice = [](Scenario& scenario, int victim, Duration length) {
    cut_off(scenario, victim, length * 3 / 8);
    scenario.after(length / 8);
    cut_off(scenario, victim, length / 2);
  };
  for (const int victim : {0, 1}) {
    expect_nothing_lost(GetParam(), 3s, victim, cut_twice);
  }
}

INSTANTIATE_TEST_SUITE_P(OfSoManyNodes, Cuts, testing::Values(2, 3, 4, 5, 8));

}  // namespace
}  // namespace ddprun::sim
