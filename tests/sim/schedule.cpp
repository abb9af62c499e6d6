#include "tests/sim/schedule.hpp"

#include <algorithm>
#include <cstdlib>

namespace ddprun::sim {
namespace {

using namespace std::chrono_literals;

constexpr auto kTrouble = 60s;
constexpr auto kQuiet = 240s;  // long enough for every timeout, one after the other
constexpr std::uint64_t kEventsMax = 300'000;

/// Cuts a part of the nodes off from the rest, both ways or one way, for a while.
void partition(World& world, Cluster& cluster, int nodes) {
  const bool both_ways = world.chance(60);
  const int first = world.roll(0, nodes - 1);
  const int size = world.roll(1, std::max(1, nodes / 2));
  const auto is_inside = [=](int node) { return (node - first + nodes) % nodes < size; };
  const Duration for_how_long =
      world.chance(50) ? world.between(100ms, 3s) : world.between(3s, 15s);
  for (int a = 0; a < nodes; ++a) {
    const auto twin = cluster.twin(a);
    if (twin && is_inside(a) && !cluster.is_alive(*twin) && world.chance(50)) {
      world.in(world.between(0s, 3s), [&cluster, twin] {
        if (!cluster.any_finished()) cluster.start(*twin);
      });
    }
    for (int b = 0; b < nodes; ++b) {
      if (!is_inside(a) || is_inside(b)) continue;
      cluster.network().cut(a, b);
      if (both_ways) cluster.network().cut(b, a);
      world.in(for_how_long, [&cluster, a, b] {
        cluster.network().mend(a, b);
        cluster.network().mend(b, a);
      });
    }
  }
}

/// As Slurm does: nearly all nodes get it, at about the same time.
void give_notice(World& world, Cluster& cluster, int nodes) {
  for (int node = 0; node < nodes; ++node) {
    if (!world.chance(80)) continue;
    world.in(world.between(0s, 50ms), [&cluster, node] { cluster.give_notice(node); });
  }
}

/// Lost silently, and back after a while: a machine that was reset, or one whose processes were
/// killed behind a cut, so that its kernel's last packets arrive late.
void vanish(World& world, Cluster& cluster, int node) {
  const Duration back = world.chance(60) ? world.between(0s, 5s) : world.between(5s, 25s);
  const bool is_reset = world.chance(50);
  if (is_reset) {
    cluster.power_off(node);
  } else {
    for (int other = 0; other < cluster.nodes(); ++other) {
      if (other == node) continue;
      cluster.network().cut(node, other);
      cluster.network().cut(other, node);
    }
    cluster.kill_all(node);
  }
  // Another machine gets its rank, from a user who cannot know whether it lives.
  const auto twin = cluster.twin(node);
  const int started = twin && world.chance(40) ? *twin : node;
  world.in(back, [&cluster, node, started] {
    cluster.network().set_up(node, true);
    for (int other = 0; other < cluster.nodes(); ++other) {
      cluster.network().mend(node, other);
      cluster.network().mend(other, node);
    }
    if (!cluster.any_finished()) cluster.start(started);
  });
}

void one_fault(World& world, Cluster& cluster, int nodes) {
  if (cluster.any_finished()) return;  // there is no job any more to come back to
  // Leaders are struck more often than others, because their failures are the hard cases.
  const int node = world.chance(35) ? cluster.leader() : world.roll(0, nodes - 1);
  switch (world.roll(0, 16)) {
    case 0:
    case 1:
      return cluster.kill_agent(node);
    case 2:
    case 11:
      return cluster.kill_agent_in_act(node);
    case 3:
      return cluster.kill_guard(node);
    case 4:
      return cluster.kill_both(node);
    case 5:
      return cluster.power_off(node);
    case 14:
      if (world.chance(50)) return cluster.kill_all(node);
      return vanish(world, cluster, node);
    case 15:
    case 16:
      return vanish(world, cluster, node);
    case 6:
      return cluster.freeze(
          node, world.chance(50) ? world.between(10ms, 3s) : world.between(3s, 20s));
    case 7:
    case 8:
      return partition(world, cluster, nodes);
    case 9:
      if (world.chance(50)) return cluster.fail_worker(node);
      if (world.chance(20)) return cluster.cannot_start_worker(node);
      cluster.end_worker_by_notice(node);
      if (world.chance(20)) give_notice(world, cluster, nodes);
      return;
    case 10:
      if (world.chance(40)) return cluster.tell_to_stop(node);
      if (world.chance(20)) give_notice(world, cluster, nodes);
      return;
    default:  // nodes that are gone come back
      for (int i = 0; i < nodes; ++i) {
        if (cluster.is_alive(i) || !world.chance(60)) continue;
        cluster.network().set_up(i, true);
        world.in(world.between(0s, 2s), [&cluster, i] {
          if (!cluster.any_finished()) cluster.start(i);
        });
      }
  }
}

}  // namespace

Outcome run_schedule(std::uint64_t seed, bool keeps_log) {
  World world(seed);
  Setting setting;
  setting.nodes = world.roll(2, 9);
  const int max = world.chance(40) ? setting.nodes : world.roll(1, setting.nodes);
  setting.range = NodeRange(world.roll(1, max), max);
  const bool has_spares = max < setting.nodes;
  // A node that replaces another by name is one of the job's nodes, not an additional one (E9).
  setting.trusts_replacement = !has_spares && world.chance(25);
  setting.moves = setting.trusts_replacement && world.chance(50);
  setting.has_ranks = !has_spares && world.chance(30);
  const bool wishes = !setting.has_ranks && world.chance(10);
  // If nodes are replaced by their rank, a rank is a slot, and each node has its own.
  setting.wishes_for_rank_0 = wishes && !setting.trusts_replacement;
  // A user who vouches for this would be wrong.
  const bool may_have_twin = setting.has_ranks && !setting.trusts_replacement;
  if (may_have_twin && world.chance(60)) {
    setting.twin_of = world.roll(1, setting.nodes - 1);
    ++setting.nodes;
  }
  setting.has_fence = world.chance(20);
  setting.held_max = world.chance(60) ? 8 : world.roll(0, 2);
  setting.last_call = 12s;  // as in reality, longer than it takes to hear of survivors
  setting.max_restarts = world.roll(0, 4);
  setting.lease = world.chance(70) ? 3s : 1s;
  setting.work = world.between(5s, 30s);
  // By the seed, so that schedules without it do not change.
  if (seed % 4 == 0) setting.unfit_percent = seed % 8 == 0 ? 40 : 15;
  setting.has_own_console = seed % 3 == 1;
  setting.reads_last_lines = seed % 4 == 2;
  Cluster cluster(world, setting);
  cluster.keeps_log = keeps_log;
  cluster.tells_calls = std::getenv("DDPRUN_SIM_CALLS") != nullptr;
  cluster.network().slowest = world.chance(80) ? Duration(2ms) : Duration(150ms);
  // What is lost on the way arrives when TCP sends it again: within a second.
  if (seed % 5 == 2) cluster.network().slowest = setting.lease / 3;

  cluster.strikes_at_starts = world.chance(30);
  world.in(kTrouble, [&cluster] { cluster.strikes_at_starts = false; });
  for (int node = 0; node < setting.nodes - (setting.twin_of ? 1 : 0); ++node) {
    const Duration late = world.chance(80) ? world.between(0s, 500ms) : world.between(0s, 20s);
    world.in(late, [&cluster, node] { cluster.start(node); });
  }
  const int faults = world.roll(10, 16);
  for (int i = 0; i < faults; ++i) {
    world.in(world.between(300ms, kTrouble), [&] { one_fault(world, cluster, setting.nodes); });
  }
  world.in(kTrouble + 20s, [&cluster] {
    cluster.network().mend_all();
    cluster.network().slowest = 2ms;
    cluster.begin_quiet();
  });

  const bool ended = world.run(
      world.now() + kTrouble + kQuiet, kEventsMax, [&] { return !cluster.violations().empty(); });
  Outcome outcome;
  outcome.violations = cluster.violations();
  if (!ended) outcome.violations.emplace_back("a busy loop: too much happens");
  if (outcome.violations.empty()) {
    cluster.check_settled();
    outcome.violations = cluster.violations();
  }
  outcome.log = cluster.log();
  outcome.events = world.happened();
  outcome.rounds = cluster.rounds_started();
  outcome.terms = cluster.newest_term();
  for (const auto& [node, status] : cluster.finished()) {
    if (status == 0) ++outcome.succeeded;
    if (status == 75) ++outcome.gave_up;
  }
  return outcome;
}

}  // namespace ddprun::sim
