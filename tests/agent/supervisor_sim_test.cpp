// A supervisor and workers that do what the dice say: end well or badly, ignore signals, leave
// processes behind, while a person presses Ctrl-C now and then. What must hold however they fall:
//
//   R2  a worker starts only when nothing of the attempt before it is left
//   R5  restarts never exceed the budget
//   R6  0 is reported only if every worker of the last attempt exited 0
//   and the job ends, once, within a bounded time of the last worker's or the person's last word
//
// One seed is one run; a failure prints it.

#include "agent/core/supervisor.hpp"

#include <gtest/gtest.h>

#include <csignal>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <variant>

namespace ddprun {
namespace {

using namespace std::chrono_literals;

constexpr int kSeeds = 3000;
constexpr int kStepsMax = 10'000;
constexpr int kRestartsMax = 3;

class World {
 public:
  explicit World(std::uint64_t seed) : dice_(seed), supervisor_(policy()) {}

  void run() {
    feed(Supervisor::Begin{});
    for (int steps = 0; !finished_; ++steps) {
      ASSERT_LT(steps, kStepsMax) << "the job does not end";
      advance();
      if (testing::Test::HasFatalFailure()) return;
    }
    EXPECT_LE(attempts_ - 1, kRestartsMax) << "R5";
    EXPECT_TRUE(*finished_ != 0 || good_ends_ == workers_) << "R6";
  }

 private:
  // What happens at a time: events to feed, and processes that end.
  struct WorkerEnds {
    int local_rank = 0;
    int incarnation = 0;
    ProcessEnd end;
  };
  struct LeftoverEnds {
    int incarnation = 0;
  };
  struct CtrlC {};
  using Happening = std::variant<WorkerEnds, LeftoverEnds, CtrlC>;

  SupervisorPolicy policy() {
    SupervisorPolicy policy;
    policy.workers = workers_ = roll(1, 4);
    policy.max_restarts = kRestartsMax;
    policy.grace = 30s;
    if (roll(0, 3) == 0) at_.emplace(seconds_between(0, 100), CtrlC{});
    if (roll(0, 5) == 0) at_.emplace(seconds_between(0, 100), CtrlC{});
    return policy;
  }

  int roll(int least, int most) { return std::uniform_int_distribution<>(least, most)(dice_); }

  Duration seconds_between(int least, int most) { return std::chrono::seconds(roll(least, most)); }

  void advance() {
    const auto due = supervisor_.next_deadline();
    const bool has_next = !at_.empty();
    ASSERT_TRUE(due || has_next) << "nothing will ever happen";
    if (due && (!has_next || *due <= TimePoint(at_.begin()->first))) {
      now_ = std::max(now_, *due);
      return feed(Supervisor::Tick{});
    }
    const auto [when, what] = *at_.begin();
    at_.erase(at_.begin());
    now_ = std::max(now_, TimePoint(when));
    std::visit([this](const auto& happens) { happen(happens); }, what);
  }

  void happen(const WorkerEnds& worker) {
    auto& alive = alive_[worker.local_rank];
    if (alive != worker.incarnation) return;  // it ended otherwise
    alive = 0;
    if (worker.end.ok()) ++good_ends_;
    feed(Supervisor::Ended{.local_rank = worker.local_rank, .end = worker.end});
    tell_if_alone();
  }
  void happen(const LeftoverEnds& leftover) {
    leftovers_.erase(leftover.incarnation);
    tell_if_alone();
  }
  void happen(const CtrlC& /*pressed*/) { feed(Supervisor::Signalled{.signal = SIGINT}); }

  bool any_alive() const {
    for (const auto& [rank, incarnation] : alive_) {
      if (incarnation != 0) return true;
    }
    return !leftovers_.empty();
  }

  void tell_if_alone() {
    if (!sweeping_ || any_alive()) return;
    sweeping_ = false;
    feed(Supervisor::Alone{});
  }

  void feed(const Supervisor::Event& event) {
    queue_.push_back(event);
    if (feeding_) return;
    feeding_ = true;
    while (!queue_.empty()) {
      const auto next = queue_.front();
      queue_.pop_front();
      Supervisor::Effects effects;
      supervisor_.apply(next, now_, effects);
      for (const auto& effect : effects) {
        std::visit([this](const auto& what) { perform(what); }, effect);
      }
    }
    feeding_ = false;
  }

  void perform(const Supervisor::StartAttempt& /*effect*/) {
    EXPECT_FALSE(any_alive()) << "R2";
    ++attempts_;
    good_ends_ = 0;
  }

  void perform(const Supervisor::Spawn& effect) {
    EXPECT_FALSE(finished_);
    alive_[effect.local_rank] = ++incarnations_;
    const int fate = roll(0, 4);  // 3 and 4 are bad ends
    const ProcessEnd end{.code = fate == 3 ? 3 : 0, .signal = fate == 4 ? SIGSEGV : 0};
    schedule(effect.local_rank, seconds_between(0, 60), end);
    if (roll(0, 4) == 0) leftovers_.insert({++incarnations_, roll(0, 2) == 0});
    feed(Supervisor::Spawned{.local_rank = effect.local_rank, .pid = incarnations_});
  }

  void schedule(int local_rank, Duration after, ProcessEnd end) {
    const WorkerEnds ends{.local_rank = local_rank, .incarnation = alive_[local_rank], .end = end};
    at_.emplace((now_ + after).time_since_epoch(), ends);
  }

  void perform(const Supervisor::Send& effect) {
    EXPECT_NE(alive_[effect.local_rank], 0) << "a signal to a stranger";
    const bool ignores = effect.signal != SIGKILL && roll(0, 3) == 0;
    if (!ignores) schedule(effect.local_rank, 1ms, {.code = 0, .signal = effect.signal});
  }

  void perform(const Supervisor::Sweep& effect) {
    sweeping_ = true;
    for (const auto& [incarnation, ignores] : leftovers_) {
      if (ignores && effect.signal != SIGKILL) continue;
      at_.emplace((now_ + 1ms).time_since_epoch(), LeftoverEnds{.incarnation = incarnation});
    }
    if (any_alive()) return;
    sweeping_ = false;
    feed(Supervisor::Alone{});
  }

  void perform(const Supervisor::Report& /*effect*/) {}
  void perform(const Supervisor::GiveUp& /*effect*/) { ADD_FAILURE() << "all obey SIGKILL here"; }
  void perform(const Supervisor::Finish& effect) {
    EXPECT_FALSE(finished_) << "the job ends once";
    EXPECT_FALSE(any_alive()) << "R2";
    finished_ = effect.exit_status;
  }

  std::mt19937_64 dice_;
  std::multimap<Duration, Happening> at_;
  int workers_ = 0;
  Supervisor supervisor_;
  TimePoint now_;
  std::deque<Supervisor::Event> queue_;
  bool feeding_ = false;
  bool sweeping_ = false;
  std::map<int, int> alive_;       // local rank → incarnation; 0: not running
  std::map<int, bool> leftovers_;  // incarnation → ignores SIGTERM
  int incarnations_ = 0;
  int attempts_ = 0;
  int good_ends_ = 0;  // of the present attempt
  std::optional<int> finished_;
};

TEST(SupervisorSim, HoldsItsRulesHoweverTheDiceFall) {
  for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    World(seed).run();
    if (HasFailure()) return;
  }
}

}  // namespace
}  // namespace ddprun
