#include "agent/core/supervisor.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <csignal>
#include <set>
#include <string>
#include <vector>

namespace ddprun {
namespace {

using namespace std::chrono_literals;

constexpr int kTwo = 2;
constexpr ProcessEnd kGood{.code = 0, .signal = 0};

constexpr ProcessEnd exited(int code) {
  return {.code = code, .signal = 0};
}

constexpr ProcessEnd killed_by(int signal) {
  return {.code = 0, .signal = signal};
}

/// A node: a supervisor, and what it did, as words. Workers are pids 100 + 10 × attempt + rank.
class Node {
 public:
  explicit Node(const SupervisorPolicy& policy) : supervisor_(policy) {}

  void begin() { feed(Supervisor::Begin{}); }
  void ends(int local_rank, ProcessEnd end, bool leaves_group = false) {
    feed(Supervisor::Ended{.local_rank = local_rank, .end = end, .leaves_group = leaves_group});
  }
  void signalled(int signal) { feed(Supervisor::Signalled{.signal = signal}); }
  void alone() { feed(Supervisor::Alone{}); }
  void pass(Duration time) {
    now_ += time;
    feed(Supervisor::Tick{});
  }
  void cannot_start(int local_rank) { refused_.insert(local_rank); }
  void lacks_memory_for(int local_rank) { short_of_.insert(local_rank); }
  void has_memory_again() { short_of_.clear(); }

  /// What was done since the last call.
  std::vector<std::string> did() { return std::exchange(done_, {}); }
  const std::vector<AttemptReport>& reports() const { return reports_; }
  std::optional<Duration> due_in() const {
    const auto due = supervisor_.next_deadline();
    if (!due) return std::nullopt;
    return *due - now_;
  }

 private:
  void feed(const Supervisor::Event& event) {
    Supervisor::Effects effects;
    supervisor_.apply(event, now_, effects);
    for (const auto& effect : effects) {
      std::visit([this](const auto& what) { perform(what); }, effect);
    }
  }

  void perform(const Supervisor::StartAttempt& effect) {
    done_.push_back(fmt::format("attempt {}", effect.attempt));
    reason_ = effect.reason;
  }
  void perform(const Supervisor::Spawn& effect) {
    const int rank = effect.local_rank;
    done_.push_back(fmt::format("spawn {}", rank));
    if (refused_.contains(rank)) {
      feed(Supervisor::SpawnFailed{
          .local_rank = rank, .exit_status = 127, .can_be_retried = false, .why = "no such file"});
      return;
    }
    if (short_of_.contains(rank)) {
      feed(Supervisor::SpawnFailed{
          .local_rank = rank, .exit_status = 75, .can_be_retried = true, .why = "no memory"});
      return;
    }
    feed(Supervisor::Spawned{.local_rank = rank, .pid = 100 + 10 * supervisor_.attempt() + rank});
  }
  void perform(const Supervisor::Send& effect) {
    done_.push_back(fmt::format("{} to {}", signal_name(effect.signal), effect.local_rank));
  }
  void perform(const Supervisor::Sweep& effect) {
    done_.push_back(fmt::format("sweep {}", signal_name(effect.signal)));
    for (const int group : effect.told_groups) {
      done_.back() += fmt::format(" but {}", group);
    }
  }
  void perform(const Supervisor::Report& effect) { reports_.push_back(effect.report); }
  void perform(const Supervisor::GiveUp& effect) {
    done_.push_back(fmt::format("give up on {}", effect.local_ranks.size()));
  }
  void perform(const Supervisor::Finish& effect) {
    done_.push_back(fmt::format("finish {}", effect.exit_status));
  }

  Supervisor supervisor_;
  TimePoint now_;
  std::vector<std::string> done_;
  std::vector<AttemptReport> reports_;
  std::set<int> refused_;
  std::set<int> short_of_;
  std::string reason_;
};

using Words = std::vector<std::string>;

SupervisorPolicy two_workers() {
  SupervisorPolicy policy;
  policy.workers = kTwo;
  policy.grace = 30s;
  policy.leftover_grace = 1s;
  policy.unkillable_after = 5s;
  return policy;
}

SupervisorPolicy with_restarts(int restarts) {
  SupervisorPolicy policy = two_workers();
  policy.max_restarts = restarts;
  return policy;
}

TEST(Supervisor, StartsInLocalRankOrderAndEndsWithZeroWhenAllDid) {
  Node node(two_workers());
  node.begin();
  EXPECT_EQ(node.did(), (Words{"attempt 0", "spawn 0", "spawn 1"}));
  node.ends(1, kGood);
  EXPECT_EQ(node.did(), Words{});  // one rank leaving early is normal
  node.ends(0, kGood);
  node.alone();
  EXPECT_EQ(node.did(), (Words{"sweep SIGTERM", "finish 0"}));
  EXPECT_TRUE(node.reports().empty());
}

TEST(Supervisor, StopsTheOthersWhenOneFailsAndEndsWithItsStatus) {
  Node node(two_workers());
  node.begin();
  node.did();
  node.ends(1, exited(7));
  EXPECT_EQ(node.did(), Words{"SIGTERM to 0"});
  node.ends(0, killed_by(SIGTERM));
  node.alone();
  EXPECT_EQ(node.did(), (Words{"sweep SIGTERM", "finish 7"}));
}

TEST(Supervisor, NamesTheFirstInTimeAsTheCulpritAndMarksWhomItStopped) {
  Node node(two_workers());
  node.begin();
  node.ends(1, killed_by(SIGKILL));
  node.ends(0, exited(1));
  node.alone();
  ASSERT_EQ(node.reports().size(), 1U);
  const auto& failures = node.reports().front().failures;
  EXPECT_EQ(failures[0].local_rank, 1);
  EXPECT_FALSE(failures[0].stopped_by_us);
  EXPECT_TRUE(failures[1].stopped_by_us);
  EXPECT_EQ(node.reports().front().exit_status, 137);
}

TEST(Supervisor, KillsWhoIgnoresTheStopSignalWhenItsGraceIsOver) {
  Node node(two_workers());
  node.begin();
  node.ends(0, exited(1));
  node.did();
  node.pass(29s);
  EXPECT_EQ(node.did(), Words{});
  node.pass(1s);
  EXPECT_EQ(node.did(), Words{"SIGKILL to 1"});
}

TEST(Supervisor, GivesUpOnAWorkerThatEvenSigkillDoesNotEnd) {
  Node node(with_restarts(3));
  node.begin();
  node.ends(0, exited(1));
  node.pass(30s);
  node.did();
  node.pass(5s);
  // R2: no new worker beside one that may come back to life.
  EXPECT_EQ(node.did(), (Words{"give up on 1", "finish 1"}));
}

TEST(Supervisor, RestartsAllUntilTheBudgetIsUsedUp) {  // R5
  Node node(with_restarts(1));
  node.begin();
  node.ends(0, exited(3));
  node.ends(1, killed_by(SIGTERM));
  node.did();
  node.alone();
  EXPECT_EQ(node.did(), (Words{"attempt 1", "spawn 0", "spawn 1"}));
  node.ends(1, exited(4));
  node.ends(0, killed_by(SIGTERM));
  node.alone();
  EXPECT_EQ(node.did(), (Words{"SIGTERM to 0", "sweep SIGTERM", "finish 4"}));
  EXPECT_TRUE(node.reports()[0].restarts);
  EXPECT_FALSE(node.reports()[1].restarts);
}

TEST(Supervisor, StartsNothingWhileAnythingOfTheLastAttemptIsLeft) {  // R2
  Node node(with_restarts(1));
  node.begin();
  node.ends(0, exited(3));
  node.ends(1, kGood);
  node.did();
  node.pass(1s);
  EXPECT_EQ(node.did(), Words{"sweep SIGKILL"});
  node.alone();
  EXPECT_EQ(node.did().front(), "attempt 1");
}

TEST(Supervisor, SucceedsAfterARestart) {
  Node node(with_restarts(1));
  node.begin();
  node.ends(0, exited(3));
  node.ends(1, kGood);
  node.alone();
  node.ends(0, kGood);
  node.ends(1, kGood);
  node.alone();
  EXPECT_EQ(node.did().back(), "finish 0");
}

TEST(Supervisor, ForgetsOldRestartsAfterAHealthyWindow) {
  SupervisorPolicy policy = with_restarts(1);
  policy.restart_window = 60s;
  Node node(policy);
  node.begin();
  for (int failure = 0; failure < 3; ++failure) {
    node.pass(60s);
    node.ends(0, exited(3));
    node.ends(1, kGood);
    node.alone();
  }
  node.pass(59s);
  node.ends(0, exited(3));
  node.ends(1, kGood);
  node.did();
  node.alone();
  EXPECT_EQ(node.did(), Words{"finish 3"});
}

TEST(Supervisor, PassesTheFirstSignalOnAndDrains) {
  Node node(with_restarts(3));
  node.begin();
  node.did();
  node.signalled(SIGINT);
  EXPECT_EQ(node.did(), (Words{"SIGINT to 0", "SIGINT to 1"}));
  node.ends(0, kGood);
  node.ends(1, exited(1));
  node.alone();
  EXPECT_EQ(node.did(), (Words{"sweep SIGTERM", "finish 130"}));
}

TEST(Supervisor, KillsAtOnceWhenTheSecondSignalComes) {
  Node node(two_workers());
  node.begin();
  node.signalled(SIGINT);
  node.did();
  node.pass(1s);
  node.signalled(SIGINT);
  EXPECT_EQ(node.did(), (Words{"SIGKILL to 0", "SIGKILL to 1"}));
  node.ends(0, killed_by(SIGKILL));
  node.ends(1, killed_by(SIGKILL));
  EXPECT_EQ(node.did(), Words{"sweep SIGKILL"});
}

TEST(Supervisor, TakesOneSignalDeliveredTwiceForOne) {
  Node node(two_workers());
  node.begin();
  node.signalled(SIGTERM);
  node.did();
  node.pass(199ms);
  node.signalled(SIGTERM);
  EXPECT_EQ(node.did(), Words{});
  node.signalled(SIGINT);  // another one is another wish
  EXPECT_EQ(node.did().size(), 2U);
}

TEST(Supervisor, DoesNotRestartAfterASignalThatCameWhileItWasStopping) {
  Node node(with_restarts(3));
  node.begin();
  node.ends(0, exited(3));
  node.signalled(SIGTERM);
  node.ends(1, kGood);
  node.did();
  node.alone();
  EXPECT_EQ(node.did(), Words{"finish 143"});
}

TEST(Supervisor, KeepsAVerdictThatWasReachedBeforeTheSignal) {
  Node node(two_workers());
  node.begin();
  node.ends(0, kGood);
  node.ends(1, kGood);
  node.signalled(SIGTERM);
  node.alone();
  EXPECT_EQ(node.did().back(), "finish 0");
}

TEST(Supervisor, DoesNotTryTheOthersWhenOneCannotBeExecuted) {
  Node node(with_restarts(3));
  node.cannot_start(0);
  node.begin();
  node.alone();
  EXPECT_EQ(node.did(), (Words{"attempt 0", "spawn 0", "sweep SIGTERM", "finish 127"}));
  EXPECT_FALSE(node.reports().front().restarts);
}

TEST(Supervisor, PausesBeforeItTriesAgainWhatTheSystemRefused) {
  Node node(with_restarts(2));
  node.lacks_memory_for(0);
  node.begin();
  node.alone();
  EXPECT_EQ(node.did(), (Words{"attempt 0", "spawn 0", "sweep SIGTERM"}));
  EXPECT_EQ(node.due_in(), 1s);
  node.pass(1s);
  node.alone();
  EXPECT_EQ(node.did(), (Words{"attempt 1", "spawn 0", "sweep SIGTERM"}));
  node.has_memory_again();
  node.pass(1s);
  EXPECT_EQ(node.did(), (Words{"attempt 2", "spawn 0", "spawn 1"}));
  EXPECT_EQ(node.due_in(), std::nullopt);
  EXPECT_EQ(node.reports().size(), 2U);
}

TEST(Supervisor, EndsAtOnceWhenTheSignalComesInAPause) {
  Node node(with_restarts(2));
  node.lacks_memory_for(0);
  node.begin();
  node.alone();
  node.did();
  node.signalled(SIGTERM);
  EXPECT_EQ(node.did(), (Words{"finish 143"}));
  EXPECT_EQ(node.due_in(), std::nullopt);
}

TEST(Supervisor, LeavesAShellsChildTheGraceOfItsWorker) {
  Node node(two_workers());
  node.begin();
  node.signalled(SIGTERM);
  node.did();
  node.pass(2s);
  node.ends(0, killed_by(SIGTERM), /*leaves_group=*/true);
  node.ends(1, killed_by(SIGTERM));
  EXPECT_EQ(node.did(), (Words{"sweep SIGTERM but 100"}));
  EXPECT_EQ(node.due_in(), 28s);
  node.pass(28s);
  EXPECT_EQ(node.did(), (Words{"sweep SIGKILL"}));
}

TEST(Supervisor, GivesWhatAFailedWorkerLeftBehindAShortGrace) {
  Node node(two_workers());
  node.begin();
  node.ends(0, exited(1), /*leaves_group=*/true);
  node.ends(1, killed_by(SIGTERM));
  EXPECT_EQ(node.did().back(), "sweep SIGTERM");
  EXPECT_EQ(node.due_in(), 1s);
}

TEST(Supervisor, StartsNothingWhenTheSignalCameFirst) {
  Node node(two_workers());
  node.signalled(SIGTERM);
  node.alone();
  node.begin();
  EXPECT_EQ(node.did(), (Words{"sweep SIGTERM", "finish 143"}));
}

TEST(Supervisor, HasNoDeadlineWhileAllIsWell) {
  Node node(two_workers());
  node.begin();
  EXPECT_EQ(node.due_in(), std::nullopt);
  node.ends(0, exited(1));
  EXPECT_EQ(node.due_in(), 30s);
}

}  // namespace
}  // namespace ddprun
