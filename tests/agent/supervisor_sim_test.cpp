// A supervisor with random workers: they start at once or late, end well or badly, ignore signals,
// leave processes behind, while rounds are stopped from outside, leases run out, and a person
// presses Ctrl-C now and then. These must hold in every order of events:
//
//   R2  a worker starts, and the end of a round is reported, only when no process of it is left
//   R6  success is reported only if every worker of the round exited with 0, without being told to
//   R8  after Kill everything is dead within the time of one kill, and of a start under way
//   with every --leftover: what is kept is gone before the next round's first worker starts;
//   and each round is reported as running at most once, as failed at most once, and as over once,
//   within a bounded time after the last worker's end or the person's last signal
//
// One seed is one run; a failure prints it.

#include "agent/core/supervisor.hpp"

#include <gtest/gtest.h>

#include <algorithm>
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
constexpr int kRounds = 4;
constexpr int kStepsMax = 10'000;
/// Longer than a process needs that is being made when its start is cancelled.
constexpr Duration kSpawnAfterCancel = 3s;

class World {
 public:
  explicit World(std::uint64_t seed) : dice_(seed), supervisor_(policy()) {}

  void run() {
    for (int round = 0; round < kRounds; ++round) {
      begin_round();
      for (int steps = 0; !over_; ++steps) {
        ASSERT_LT(steps, kStepsMax) << "the round does not end";
        advance();
        if (testing::Test::HasFailure()) return;
      }
      EXPECT_LE(supervisor_.phase(), SupervisorPhase::kKeeping);
      EXPECT_EQ(supervisor_.next_deadline(), std::nullopt);
      if (over_ == WorkersState::kSucceeded) {
        EXPECT_EQ(good_ends_, workers_) << "R6";
        EXPECT_EQ(told_failed_, 0) << "R6";
      }
    }
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
  struct SpawnEnds {
    int spawn = 0;
  };
  struct CtrlC {};
  struct Stopped {
    int round = 0;
  };
  struct LeaseOver {
    int round = 0;
  };
  using Event = std::variant<WorkerEnds, LeftoverEnds, SpawnEnds, CtrlC, Stopped, LeaseOver>;

  SupervisorPolicy policy() {
    SupervisorPolicy policy;
    policy.workers = workers_ = roll(1, 4);
    policy.grace = 30s;
    policy.leftovers = {.mode = LeftoverMode(roll(0, 2)), .limit = seconds_between(1, 60)};
    keeps_ = policy.leftovers.mode == LeftoverMode::kKeep;
    return policy;
  }

  void begin_round() {
    EXPECT_TRUE(keeps_ || !any_alive()) << "R2";
    ++round_;
    over_.reset();
    incarnations_before_ = incarnations_;
    good_ends_ = told_running_ = told_failed_ = 0;
    is_killed_ = has_failed_start_ = false;
    EXPECT_TRUE(starting_.empty());
    if (roll(0, 2) == 0) plan(Stopped{.round = round_});
    if (roll(0, 3) == 0) plan(Stopped{.round = round_});
    if (roll(0, 3) == 0) plan(LeaseOver{.round = round_});
    if (roll(0, 5) == 0) plan(CtrlC{});
    feed(Supervisor::StartRound{});
  }

  void plan(const Event& what) {
    at_.emplace((now_ + seconds_between(0, 100)).time_since_epoch(), what);
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
    const Duration start = was_starting_when_killed_ ? kSpawnAfterCancel : Duration();
    EXPECT_TRUE(!is_killed_ || over_ || now_ <= killed_at_ + start + 10ms) << "R8";
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
  void happen(const SpawnEnds& spawn) {
    if (spawn.spawn == spawn_) spawned();
  }
  void happen(const CtrlC& /*pressed*/) { feed(Supervisor::Signalled{.signal = SIGINT}); }
  void happen(const Stopped& order) {
    if (order.round == round_) feed(Supervisor::StopRound{.signal = SIGTERM});
  }
  void happen(const LeaseOver& order) {
    if (order.round != round_ || over_) return;
    is_killed_ = true;
    killed_at_ = now_;
    was_starting_when_killed_ = !starting_.empty();
    feed(Supervisor::Kill{});
  }

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
    apply_queue();
  }

  void apply_queue() {
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

  void perform(const Supervisor::Spawn& effect) {
    EXPECT_FALSE(over_) << "R2";
    EXPECT_FALSE(is_killed_) << "R8";
    for (const auto& [incarnation, ignores] : leftovers_) {
      EXPECT_GT(incarnation, incarnations_before_) << "R2";
    }
    starting_.push_back(effect.local_rank);
    if (starting_.size() == 1 && !has_failed_start_) begin_spawn();
  }

  /// The first of `starting_`: at once, or when a disk answers.
  void begin_spawn() {
    ++spawn_;
    if (roll(0, 2) != 0) return spawned();
    at_.emplace((now_ + seconds_between(0, 30)).time_since_epoch(), SpawnEnds{.spawn = spawn_});
  }

  /// It waits for a disk, or for another one that does, and makes no process any more; or it is
  /// making one; or its answer is under way.
  void perform(const Supervisor::CancelSpawn& effect) {
    const auto spawn = std::ranges::find(starting_, effect.local_rank);
    if (spawn == starting_.end()) return;
    const bool is_first = spawn == starting_.begin();
    if (is_first) ++spawn_;  // it ends at another time, or not at all
    if (is_first && !has_failed_start_ && roll(0, 1) == 0) {
      const SpawnEnds ends{.spawn = spawn_};
      at_.emplace((now_ + seconds_between(0, 2)).time_since_epoch(), ends);
      return;
    }
    starting_.erase(spawn);
    queue_.emplace_front(Supervisor::SpawnCancelled{.local_rank = effect.local_rank});
  }

  void perform(const Supervisor::SlowSpawn& effect) {
    ASSERT_FALSE(starting_.empty());
    EXPECT_EQ(effect.local_rank, starting_.front());
  }

  void spawned() {
    const int local_rank = starting_.front();
    starting_.pop_front();
    if (roll(0, 20) == 0) {
      has_failed_start_ = true;
      return feed(Supervisor::SpawnFailed{.local_rank = local_rank, .exit_status = 75, .why = ""});
    }
    queue_.emplace_back(Supervisor::Spawned{.local_rank = local_rank, .pid = ++incarnations_});
    alive_[local_rank] = incarnations_;
    const int fate = roll(0, 6);  // 5 and 6 are bad ends
    const ProcessEnd end{.code = fate == 5 ? 3 : 0, .signal = fate == 6 ? SIGSEGV : 0};
    schedule(local_rank, seconds_between(0, 60), end);
    if (roll(0, 4) == 0) {
      leftovers_.insert({++incarnations_, roll(0, 2) == 0});
      const LeftoverEnds by_itself{.incarnation = incarnations_};
      if (roll(0, 2) == 0)
        at_.emplace((now_ + seconds_between(0, 120)).time_since_epoch(), by_itself);
    }
    if (!starting_.empty()) begin_spawn();
    apply_queue();
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
      if (effect.signal == 0 || (ignores && effect.signal != SIGKILL)) continue;
      at_.emplace((now_ + 1ms).time_since_epoch(), LeftoverEnds{.incarnation = incarnation});
    }
    if (any_alive()) return;
    sweeping_ = false;
    feed(Supervisor::Alone{});
  }

  void perform(const Supervisor::GiveUp& /*effect*/) { ADD_FAILURE() << "all obey SIGKILL here"; }

  void perform(const Supervisor::Leftovers& /*effect*/) {
    EXPECT_TRUE(good_ends_ == workers_ || keeps_) << "only after a success";
  }

  void perform(const Supervisor::Waits& waits) {
    for (const int rank : waits.local_ranks) {
      EXPECT_TRUE(alive_[rank] != 0 || !starting_.empty()) << "it waits for nobody";
    }
  }

  void perform(const Supervisor::News& news) {
    EXPECT_FALSE(over_) << "there is news of a round that was over";
    switch (news.state) {
      case WorkersState::kRunning:
        EXPECT_EQ(++told_running_, 1);
        return;
      case WorkersState::kFailed:
        EXPECT_EQ(++told_failed_, 1);
        EXPECT_EQ(news.failures.size(), 1U);
        EXPECT_FALSE(news.failures.front().stopped_by_us);
        return;
      case WorkersState::kStopped:
      case WorkersState::kSucceeded:
        if (!keeps_ || news.state != WorkersState::kSucceeded) {
          EXPECT_FALSE(any_alive()) << "R2";
        }
        over_ = news.state;
    }
  }

  std::mt19937_64 dice_;
  std::multimap<Duration, Event> at_;
  int workers_ = 0;
  bool keeps_ = false;  // --leftover keep
  Supervisor supervisor_;
  TimePoint now_;
  std::deque<Supervisor::Event> queue_;
  bool feeding_ = false;
  bool sweeping_ = false;
  std::map<int, int> alive_;       // local rank → incarnation; 0: not running
  std::map<int, bool> leftovers_;  // incarnation → ignores SIGTERM
  std::deque<int> starting_;       // local ranks that were ordered, and have no answer
  int spawn_ = 0;                  // which one is under way, if one is
  bool has_failed_start_ = false;  // in this round: those after it are not tried
  int incarnations_ = 0;
  int incarnations_before_ = 0;  // this round
  int round_ = 0;
  std::optional<WorkersState> over_;
  int good_ends_ = 0;
  int told_running_ = 0;
  int told_failed_ = 0;
  bool is_killed_ = false;
  TimePoint killed_at_;
  bool was_starting_when_killed_ = false;
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
