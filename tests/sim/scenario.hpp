#pragma once

// One scenario: a cluster whose faults a test triggers one by one. A violated rule fails the test,
// and then the whole scenario is printed.

#include "tests/sim/cluster.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <iostream>
#include <set>
#include <vector>

namespace ddprun::sim {

/// Workers end as soon as they are told, and run longer than any scenario.
inline Setting cluster_of(
    int nodes, NodeRange range, int max_restarts = 3, Duration work = std::chrono::hours(1)) {
  Setting setting;
  setting.nodes = nodes;
  setting.range = range;
  setting.max_restarts = max_restarts;
  setting.work = work;
  setting.slow_workers = 0;
  return setting;
}

class Scenario {
 public:
  /// All nodes start, one shortly after the other.
  explicit Scenario(const Setting& setting, std::uint64_t seed = 1)
      : world_(seed), cluster_(world_, setting) {
    cluster_.keeps_log = true;
    cluster_.tells_calls = std::getenv("DDPRUN_SIM_CALLS") != nullptr;
    nodes_ = setting.nodes;
    for (int node = 0; node < nodes_; ++node) {
      world_.in(std::chrono::milliseconds(10) * node, [this, node] { cluster_.start(node); });
    }
  }

  ~Scenario() {
    EXPECT_THAT(cluster_.violations(), testing::IsEmpty());
    if (!testing::Test::HasFailure()) return;
    for (const auto& line : cluster_.log()) {
      std::cerr << line << "\n";
    }
  }
  Scenario(const Scenario&) = delete;
  Scenario& operator=(const Scenario&) = delete;

  Cluster* operator->() { return &cluster_; }
  TimePoint now() const { return world_.now(); }

  void after(Duration delay) {
    ASSERT_TRUE(run(delay, [] { return false; }));
  }

  /// Starts that node after the others run and some seconds have passed. REQUIRES: called first.
  void come_late(int node) {
    cluster_.network().set_up(node, false);
    after(std::chrono::seconds(2));
    cluster_.network().set_up(node, true);
    cluster_.start(node);
    after(std::chrono::seconds(3));
  }

  /// Continues until all nodes of a round that is newer than `before` run. Returns these nodes, by
  /// group rank; none: not within `limit`.
  std::vector<int> until_round_after(RoundId before, Duration limit) {
    const auto runs = [&] { return cluster_.round() > before && cluster_.is_whole(); };
    run(limit, runs);
    return runs() ? cluster_.running() : std::vector<int>();
  }

  /// Nothing that any of `from` sends reaches any of the others.
  void silence(const std::set<int>& from) {
    for (const int node : from) {
      for (int other = 0; other < nodes_; ++other) {
        if (!from.contains(other)) cluster_.network().cut(node, other);
      }
    }
  }

  /// Nothing that others send reaches any of `to`.
  void deafen(const std::set<int>& to) {
    for (const int node : to) {
      for (int other = 0; other < nodes_; ++other) {
        if (!to.contains(other)) cluster_.network().cut(other, node);
      }
    }
  }

  /// Both.
  void isolate(const std::set<int>& nodes) {
    silence(nodes);
    deafen(nodes);
  }

 private:
  bool run(Duration longest, const std::function<bool()>& is_over) {
    constexpr std::uint64_t kEventsMax = 1'000'000;
    return world_.run(now() + longest, world_.happened() + kEventsMax, is_over);
  }

  World world_;
  Cluster cluster_;
  int nodes_ = 0;
};

}  // namespace ddprun::sim
