// Schedules that a newcomer should know, as text: traces/*.txt. Each file says what happens to a
// cluster and, below "----", what its nodes then do. docs/rendezvous.md has an example.
//
//   cluster 3 2:3           3 nodes, --nnodes 2:3, which all start; "cluster 3 2:3 without n2"
//   start n2                its agent, or its machine
//   fail-worker n1          one of its workers exits with status 3
//   kill-agent n0           as by SIGKILL; its guard ends the workers
//   power-off n1
//   isolate n0              no message from or to the other nodes; "isolate n0 n1": as a group
//   heal
//   drain n2                as by SIGTERM to that ddprun alone
//   run 2s
//   skip 2s                 as run, and what happens is not shown
//
// Times are in seconds. Heartbeats are not shown, and of what a node repeats only the first time.
// With DDPRUN_REWRITE in the environment the test writes what it saw into the files.

#include "tests/sim/cluster.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <set>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

namespace ddprun::sim {
namespace {

/// A cluster without chance that does what a line says.
class Player {
 public:
  void play(const std::string& line) {
    std::istringstream in(line);
    std::string verb;
    in >> verb;
    if (verb == "cluster") return begin(in);
    if (verb == "run") return run(in);
    if (verb == "skip") {
      run(in);
      read_ = cluster_->log().size();
      return;
    }
    if (verb == "heal") return cluster_->network().mend_all();
    std::set<int> nodes;
    for (std::string node; in >> node;)
      nodes.insert(std::stoi(node.substr(1)));
    if (verb == "isolate") return isolate(nodes);
    for (const int node : nodes) {
      act(verb, node);
    }
  }

  /// What the nodes did since the last time, by line.
  std::string seen() {
    std::string out;
    std::set<std::string> texts;
    for (; read_ < cluster_->log().size(); ++read_) {
      const std::string& line = cluster_->log()[read_];
      const auto text = line.find('n');  // after the time, of which milliseconds are enough
      if (!texts.insert(line.substr(text)).second) continue;
      out += fmt::format("{} {}\n", line.substr(0, text - 2), line.substr(text));
    }
    return out;
  }

  const std::vector<std::string>& violations() const { return cluster_->violations(); }

 private:
  void begin(std::istringstream& in) {
    Setting setting;
    int min = 0;
    int max = 0;
    char colon = 0;
    in >> setting.nodes >> min >> colon >> max;
    setting.range = NodeRange(min, max);
    setting.work = std::chrono::hours(1);
    setting.slow_workers = 0;
    cluster_ = std::make_unique<Cluster>(world_, setting);
    cluster_->keeps_log = cluster_->tells_calls = true;
    std::set<std::string> late;
    for (std::string word; in >> word;)
      late.insert(word);
    for (int node = 0; node < setting.nodes; ++node) {
      if (late.contains(fmt::format("n{}", node))) {
        cluster_->network().set_up(node, false);
      } else {
        world_.in(std::chrono::milliseconds(10) * node, [this, node] { cluster_->start(node); });
      }
    }
  }

  void run(std::istringstream& in) {
    double seconds = 0;
    in >> seconds;
    constexpr std::uint64_t kEventsMax = 1'000'000;
    const auto end =
        world_.now() + std::chrono::duration_cast<Duration>(std::chrono::duration<double>(seconds));
    world_.run(end, world_.happened() + kEventsMax, [] { return false; });
    world_.at(end, [] {});  // so that the clock shows it
    world_.run(end, world_.happened() + kEventsMax, [] { return false; });
  }

  void isolate(const std::set<int>& nodes) {
    for (const int node : nodes) {
      for (int other = 0; other < cluster_->nodes(); ++other) {
        if (nodes.contains(other)) continue;
        cluster_->network().cut(node, other);
        cluster_->network().cut(other, node);
      }
    }
  }

  void act(const std::string& verb, int node) {
    if (verb == "start") {
      cluster_->network().set_up(node, true);
      return cluster_->start(node);
    }
    if (verb == "fail-worker") return cluster_->fail_worker(node);
    if (verb == "kill-agent") return cluster_->kill_agent(node);
    if (verb == "power-off") return cluster_->power_off(node);
    if (verb == "drain") return cluster_->tell_to_stop(node);
    throw std::invalid_argument("no such verb: " + verb);
  }

  World world_ = World::steady();
  std::unique_ptr<Cluster> cluster_;
  std::size_t read_ = 0;
};

std::vector<std::string> files() {
  std::vector<std::string> found;
  for (const auto& entry : std::filesystem::directory_iterator(DDPRUN_TRACES)) {
    found.push_back(entry.path().stem().string());
  }
  std::ranges::sort(found);
  return found;
}

class Traces : public testing::TestWithParam<std::string> {};

TEST_P(Traces, HappenAsWritten) {
  const std::string path = fmt::format("{}/{}.txt", DDPRUN_TRACES, GetParam());
  std::ifstream file(path);
  Player player;
  std::string written;
  std::string played;
  bool is_below = false;  // a "----"
  for (std::string line; std::getline(file, line);) {
    written += line + "\n";
    if (is_below && !line.empty()) continue;
    is_below = false;
    played += line + "\n";
    if (line == "----") {
      is_below = true;
      played += player.seen();
    } else if (!line.empty() && !line.starts_with('#')) {
      player.play(line);
    }
  }
  EXPECT_THAT(player.violations(), testing::IsEmpty());
  if (std::getenv("DDPRUN_REWRITE") != nullptr) std::ofstream(path) << played;
  EXPECT_EQ(played, written) << path << ": run again with DDPRUN_REWRITE=1 to accept what happens";
}

INSTANTIATE_TEST_SUITE_P(Files, Traces, testing::ValuesIn(files()), [](const auto& file) {
  return file.param;
});

}  // namespace
}  // namespace ddprun::sim
