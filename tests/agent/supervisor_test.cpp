#include "agent/core/supervisor.hpp"

#include "base/event_queue.hpp"
#include "base/exit_status.hpp"
#include "base/signal_name.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <csignal>
#include <deque>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace ddprun {
namespace {

using namespace std::chrono_literals;

constexpr int kTwo = 2;
constexpr Duration kQuiet = 24h;  // before a wait is reported, in most tests
constexpr ProcessEnd kGood{.code = 0, .signal = 0};

constexpr ProcessEnd exited(int code) {
  return {.code = code, .signal = 0};
}

constexpr ProcessEnd killed_by(int signal) {
  return {.code = 0, .signal = signal};
}

std::string word_for(WorkersState state) {
  switch (state) {
    case WorkersState::kStopped:
      return "stopped";
    case WorkersState::kRunning:
      return "running";
    case WorkersState::kFailed:
      return "failed";
    case WorkersState::kSucceeded:
      return "succeeded";
  }
  return "?";
}

std::string limit(const std::optional<Duration>& kill_in) {
  return kill_in ? fmt::format("{:.0f} s", to_seconds(*kill_in)) : "no limit";
}

/// A node: a supervisor, and what it did, as tokens. Workers are pids 100 × round + rank.
class Node {
 public:
  explicit Node(const SupervisorPolicy& policy) : supervisor_(policy) {}

  void start() {
    ++round_;
    starting_.clear();
    feed(Supervisor::StartRound{});
  }
  void stop(int signal = SIGTERM) { feed(Supervisor::StopRound{.signal = signal}); }
  void notice(int signal = SIGTERM, std::optional<Duration> killed_in = std::nullopt) {
    feed(Supervisor::StopRound{.signal = signal, .is_notice = true, .killed_in = killed_in});
  }
  void kill() { feed(Supervisor::Kill{}); }
  void ends(int local_rank, ProcessEnd end, bool leaves_group = false) {
    feed(Supervisor::Ended{.local_rank = local_rank, .end = end, .leaves_group = leaves_group});
  }
  /// When another one ends as well, and is reported next.
  void ends_with_another(int local_rank, ProcessEnd end) {
    feed(Supervisor::Ended{.local_rank = local_rank, .end = end, .others_end = true});
  }
  void signalled(int signal) { feed(Supervisor::Signalled{.signal = signal}); }
  void repeated(int signal) { feed(Supervisor::Signalled{.signal = signal, .is_repeated = true}); }
  void alone() { feed(Supervisor::Alone{}); }
  void pass(Duration time) {
    now_ += time;
    feed(Supervisor::Tick{});
  }
  void starts_slowly(int local_rank) { starts_slowly_.insert(local_rank); }
  /// What started slowly runs now.
  void spawned(int local_rank) {
    ASSERT_EQ(starting_.front(), local_rank);
    starting_.pop_front();
    feed(Supervisor::Spawned{.local_rank = local_rank, .pid = 100 * round_ + local_rank});
    start_next();
  }
  void cancelled(int local_rank) {
    ASSERT_EQ(starting_.front(), local_rank);
    starting_.pop_front();
    feed(Supervisor::SpawnCancelled{.local_rank = local_rank});
  }
  void cannot_start(int local_rank, int status = 127) { refused_.emplace(local_rank, status); }

  /// What was done since the last call.
  std::vector<std::string> did() { return std::exchange(done_, {}); }
  /// What was reported last.
  const Supervisor::News& news() const { return news_; }
  std::optional<Duration> due_in() const {
    const auto due = supervisor_.next_deadline();
    if (!due) return std::nullopt;
    return *due - now_;
  }
  SupervisorPhase phase() const { return supervisor_.phase(); }
  bool has_succeeded() const { return supervisor_.has_succeeded(); }

 private:
  void feed(const Supervisor::Event& event) {
    events_.run(event, [this](const Supervisor::Event& next) {
      Supervisor::Effects effects;
      supervisor_.apply(next, now_, effects);
      for (const auto& effect : effects) {
        std::visit([this](const auto& what) { perform(what); }, effect);
      }
    });
  }

  void perform(const Supervisor::Spawn& effect) {
    done_.push_back(fmt::format("spawn {}", effect.local_rank));
    starting_.push_back(effect.local_rank);
    if (starting_.size() == 1) start_next();
  }

  /// The first of `starting_`. Nothing is tried after one that cannot be started.
  void start_next() {
    if (starting_.empty()) return;
    const int rank = starting_.front();
    if (starts_slowly_.contains(rank)) return;
    if (!refused_.contains(rank)) return spawned(rank);
    const bool for_now = refused_.at(rank) == kExitTryAgain;
    starting_.front() = kNobody;
    feed(Supervisor::SpawnFailed{
        .local_rank = rank,
        .exit_status = refused_.at(rank),
        .can_be_retried = for_now,
        .why = for_now ? "no process" : "no such file"});
  }

  /// One that starts slowly is left to cancelled(), or to spawned().
  void perform(const Supervisor::CancelSpawn& effect) {
    done_.push_back(fmt::format("cancel {}", effect.local_rank));
    if (starting_.front() == effect.local_rank) return;
    ASSERT_EQ(std::erase(starting_, effect.local_rank), 1U);
    events_.put_first(Supervisor::SpawnCancelled{.local_rank = effect.local_rank});
  }
  void perform(const Supervisor::SlowSpawn& effect) {
    done_.push_back(fmt::format("{} starts slowly", effect.local_rank));
  }
  void perform(const Supervisor::Send& effect) {
    done_.push_back(fmt::format("{} to {}", signal_name(effect.signal), effect.local_rank));
  }
  void perform(const Supervisor::Sweep& effect) {
    done_.push_back(
        effect.signal == 0 ? "look" : fmt::format("sweep {}", signal_name(effect.signal)));
    for (const int group : effect.signalled_groups) {
      done_.back() += fmt::format(" but {}", group);
    }
  }
  void perform(const Supervisor::News& effect) {
    done_.push_back(word_for(effect.state));
    news_ = effect;
  }
  void perform(const Supervisor::GiveUp& effect) {
    done_.push_back(fmt::format("give up on {}", effect.local_ranks.size()));
  }
  void perform(const Supervisor::Waits& effect) {
    const auto who = fmt::to_string(fmt::join(effect.local_ranks, " "));
    done_.push_back(
        fmt::format("waits for {}, {}", who.empty() ? "children" : who, limit(effect.kill_in)));
  }

  void perform(const Supervisor::Leftovers& effect) {
    const std::map<LeftoverMode, std::string> arguments = {
        {LeftoverMode::kKill, "kill leftovers"},
        {LeftoverMode::kWait, "wait for leftovers"},
        {LeftoverMode::kKeep, "keep leftovers"}};
    done_.push_back(arguments.at(effect.mode));
  }

  static constexpr int kNobody = -1;

  Supervisor supervisor_;
  EventQueue<Supervisor::Event> events_;
  TimePoint now_;
  int round_ = 0;
  std::deque<int> starting_;  // local ranks that were ordered; first the one that is being started
  std::vector<std::string> done_;
  Supervisor::News news_;
  std::set<int> starts_slowly_;
  std::map<int, int> refused_;  // local ranks that cannot be started, and the status
};

using Arguments = std::vector<std::string>;

SupervisorPolicy two_workers() {
  SupervisorPolicy policy;
  policy.workers = kTwo;
  policy.grace = 30s;
  policy.quiet_grace = kQuiet;
  policy.leftover_grace = 1s;
  policy.unkillable_after = 5s;
  return policy;
}

/// One whose round runs.
Node running() {
  Node node(two_workers());
  node.start();
  node.did();
  return node;
}

TEST(Supervisor, TellsAPersonThatAStartWaitsForADisk) {
  Node node(two_workers());
  node.starts_slowly(1);
  node.start();
  EXPECT_EQ(node.did(), (Arguments{"spawn 0", "spawn 1"}));
  EXPECT_EQ(node.due_in(), 5s);
  node.pass(5s);
  EXPECT_EQ(node.did(), Arguments{"1 starts slowly"});
  EXPECT_EQ(node.due_in(), std::nullopt);  // once
  node.spawned(1);
  EXPECT_EQ(node.did(), Arguments{"running"});
}

TEST(Supervisor, DoesNotWaitForAStartThatMadeNoProcessWhenTheRoundIsStopped) {
  Node node(two_workers());
  node.starts_slowly(1);
  node.start();
  node.stop();
  EXPECT_EQ(node.did(), (Arguments{"spawn 0", "spawn 1", "SIGTERM to 0", "cancel 1"}));
  node.cancelled(1);
  node.ends(0, killed_by(SIGTERM));
  EXPECT_EQ(node.did(), Arguments{"sweep SIGTERM"});
  node.alone();
  EXPECT_EQ(node.did(), Arguments{"stopped"});
}

TEST(Supervisor, StopsAWorkerWhoseProcessWasBeingMadeWhenTheRoundWasStopped) {
  Node node(two_workers());
  node.starts_slowly(0);
  node.start();
  node.stop(SIGINT);
  EXPECT_EQ(node.did(), (Arguments{"spawn 0", "spawn 1", "cancel 0", "cancel 1"}));
  node.spawned(0);
  EXPECT_EQ(node.did(), Arguments{"SIGINT to 0"});
  node.kill();
  EXPECT_EQ(node.did(), Arguments{"SIGKILL to 0"});
}

TEST(Supervisor, KillsAWorkerWhoseProcessWasBeingMadeWhenTheLeaseWasOver) {
  Node node(two_workers());
  node.starts_slowly(0);
  node.start();
  node.stop();
  node.kill();
  EXPECT_EQ(node.did(), (Arguments{"spawn 0", "spawn 1", "cancel 0", "cancel 1"}));
  node.spawned(0);
  EXPECT_EQ(node.did(), Arguments{"SIGKILL to 0"});
}

TEST(Supervisor, GivesUpOnAStartThatNeitherEndsNorIsCancelled) {  // exec waits for a disk
  Node node(two_workers());
  node.starts_slowly(0);
  node.start();
  node.kill();
  node.pass(5s);
  EXPECT_EQ(node.did(), (Arguments{"spawn 0", "spawn 1", "cancel 0", "cancel 1", "give up on 1"}));
  node.spawned(0);
  EXPECT_EQ(node.did(), Arguments{"SIGKILL to 0"});
}

TEST(Supervisor, SaysThatAllRunOnlyIfNoneHasFailedMeanwhile) {
  Node node(two_workers());
  node.starts_slowly(1);
  node.start();
  node.ends(0, exited(kExitTryAgain));  // it lost a peer, whose node says more soon
  EXPECT_EQ(node.did(), (Arguments{"spawn 0", "spawn 1", "failed"}));
  node.pass(5s);
  EXPECT_EQ(node.did(), Arguments{});  // nor that the other starts slowly
  node.spawned(1);
  EXPECT_EQ(node.did(), Arguments{});
  node.stop();
  EXPECT_EQ(node.did(), Arguments{"SIGTERM to 1"});
}

TEST(Supervisor, TellsForEachWorkerInTurnThatItsStartWaitsForADisk) {
  Node node(two_workers());
  node.starts_slowly(0);
  node.starts_slowly(1);
  node.start();
  node.pass(5s);
  EXPECT_EQ(node.did(), (Arguments{"spawn 0", "spawn 1", "0 starts slowly"}));
  node.spawned(0);
  EXPECT_EQ(node.due_in(), 5s);
  node.pass(5s);
  EXPECT_EQ(node.did(), Arguments{"1 starts slowly"});
}

TEST(Supervisor, StartsInLocalRankOrderAndSucceedsWhenAllExitedWithZero) {  // R6
  Node node(two_workers());
  node.start();
  EXPECT_EQ(node.did(), (Arguments{"spawn 0", "spawn 1", "running"}));
  node.ends(1, kGood);
  EXPECT_EQ(node.did(), Arguments{});  // one rank leaving early is normal
  EXPECT_FALSE(node.has_succeeded());
  node.ends(0, kGood);
  EXPECT_TRUE(node.has_succeeded());
  node.alone();
  EXPECT_EQ(node.did(), (Arguments{"look", "succeeded"}));
  EXPECT_TRUE(node.news().failures.empty());
}

TEST(Supervisor, TellsOfTheFirstFailureAtOnceAndStopsTheOthersUnasked) {
  Node node = running();
  node.pass(7s);
  node.ends(1, exited(7));
  EXPECT_EQ(node.did(), (Arguments{"failed", "SIGTERM to 0"}));
  ASSERT_EQ(node.news().failures.size(), 1U);
  EXPECT_EQ(node.news().failures[0].local_rank, 1);
  EXPECT_EQ(node.news().failures[0].pid, 101);
  EXPECT_EQ(node.news().failures[0].end, exited(7));
  EXPECT_EQ(node.news().ran_for, 7s);
  node.ends(0, killed_by(SIGTERM));
  node.alone();
  EXPECT_EQ(node.did(), (Arguments{"sweep SIGTERM", "stopped"}));
}

TEST(Supervisor, NamesTheFirstInTimeAsTheCulpritAndMarksThoseThatItStopped) {
  Node node = running();
  node.ends(1, killed_by(SIGKILL));
  node.ends(0, exited(1));
  node.alone();
  const auto& failures = node.news().failures;
  ASSERT_EQ(failures.size(), 2U);
  EXPECT_EQ(failures[0].local_rank, 1);
  EXPECT_FALSE(failures[0].stopped_by_us);
  EXPECT_TRUE(failures[1].stopped_by_us);
}

TEST(Supervisor, NamesTheKilledOneThoughThoseWhoLostItAreReapedFirst) {
  for (const ProcessEnd lost_peer : {exited(kExitTryAgain), exited(1), killed_by(SIGABRT)}) {
    Node node = running();
    node.ends_with_another(0, lost_peer);
    EXPECT_EQ(node.did(), Arguments{});
    node.ends(1, killed_by(SIGKILL));
    EXPECT_EQ(node.did(), (Arguments{"failed", "sweep SIGTERM"}));
    node.alone();
    const auto& failures = node.news().failures;
    ASSERT_EQ(failures.size(), 2U);
    EXPECT_EQ(failures[0].local_rank, 1);
    EXPECT_FALSE(failures[1].stopped_by_us);
  }
}

TEST(Supervisor, TellsOfTheFirstThoughOneThatIsEndingDoesNotEnd) {
  Node node = running();
  node.ends_with_another(0, exited(1));
  EXPECT_EQ(node.due_in(), 1s);
  node.pass(1s);
  EXPECT_EQ(node.did(), (Arguments{"failed", "SIGTERM to 1"}));
}

TEST(Supervisor, LeavesThoseAloneWhoMayExplainWhyOneLostItsPeer) {
  Node node = running();
  node.ends(0, exited(kExitTryAgain));
  EXPECT_EQ(node.did(), Arguments{"failed"});
  EXPECT_EQ(node.news().failures.front().local_rank, 0);
  node.ends(1, exited(3));
  EXPECT_EQ(node.did(), (Arguments{"failed", "sweep SIGTERM"}));
  EXPECT_EQ(node.news().failures.front().local_rank, 1);
}

TEST(Supervisor, DoesNotCallStoppedAWorkerThatAnothersSignalEnded) {
  Node node = running();
  node.stop();
  node.ends(0, killed_by(SIGKILL));
  node.ends(1, killed_by(SIGTERM));
  node.alone();
  const auto& failures = node.news().failures;
  ASSERT_EQ(failures.size(), 2U);
  EXPECT_FALSE(failures[0].stopped_by_us);
  EXPECT_TRUE(failures[1].stopped_by_us);
}

TEST(Supervisor, StopsARoundWithTheSignalAskedForAndTellsNoFailure) {
  Node node = running();
  node.stop(SIGINT);
  EXPECT_EQ(node.did(), (Arguments{"SIGINT to 0", "SIGINT to 1"}));
  node.ends(0, kGood);
  node.ends(1, exited(1));
  node.alone();
  EXPECT_EQ(node.did(), (Arguments{"sweep SIGTERM", "stopped"}));
}

TEST(Supervisor, IsStoppedWhereAllExitedWithZeroOnlyBecauseTheyWereTold) {  // R6
  Node node = running();
  node.stop();
  node.ends(0, kGood);
  node.ends(1, kGood);
  EXPECT_FALSE(node.has_succeeded());
  node.alone();
  EXPECT_EQ(node.did().back(), "stopped");
}

TEST(Supervisor, StaysSucceededWhereTheOrderToStopComesAfterTheLastGoodEnd) {
  Node node = running();
  node.ends(0, kGood);
  node.ends(1, kGood);
  node.did();
  node.stop();
  EXPECT_EQ(node.did(), (Arguments{"kill leftovers", "sweep SIGTERM"}));
  node.alone();
  EXPECT_EQ(node.did(), Arguments{"succeeded"});
}

TEST(Supervisor, DoesNothingWhenToldToStopAgainOrWhenNothingRuns) {
  Node node(two_workers());
  node.stop();
  node.kill();
  EXPECT_EQ(node.did(), Arguments{});
  node.start();
  node.ends(0, exited(1));
  node.did();
  node.stop();
  EXPECT_EQ(node.did(), Arguments{});
}

TEST(Supervisor, ReportsForWhichWorkersItWaitsAndKillsThemWhenTheirGraceIsOver) {
  SupervisorPolicy policy = two_workers();
  policy.quiet_grace = 1s;
  Node node(policy);
  node.start();
  node.ends(0, exited(1));
  node.did();
  EXPECT_EQ(node.due_in(), 1s);
  node.pass(1s);
  EXPECT_EQ(node.did(), Arguments{"waits for 1, 29 s"});
  EXPECT_EQ(node.due_in(), 29s);
  node.pass(29s);
  EXPECT_EQ(node.did(), Arguments{"SIGKILL to 1"});
}

TEST(Supervisor, TellsThatItWaitsForTheChildOfAWorkerThatHasSaved) {
  SupervisorPolicy policy = two_workers();
  policy.quiet_grace = 1s;
  Node node(policy);
  node.start();
  node.stop();
  node.ends(0, exited(kExitTryAgain), /*leaves_group=*/true);
  node.ends(1, exited(kExitTryAgain));
  node.did();
  EXPECT_EQ(node.due_in(), 1s);
  node.pass(1s);
  EXPECT_EQ(node.did(), Arguments{"waits for children, 29 s"});
  node.alone();
  EXPECT_EQ(node.due_in(), std::nullopt);
}

TEST(Supervisor, TellsNobodyOfAWaitThatWasShort) {
  SupervisorPolicy policy = two_workers();
  policy.quiet_grace = 1s;
  Node node(policy);
  node.start();
  node.stop();
  node.ends(0, killed_by(SIGTERM));
  node.ends(1, killed_by(SIGTERM));
  node.did();
  node.alone();
  node.pass(2s);
  EXPECT_EQ(node.did(), Arguments{"stopped"});
}

TEST(Supervisor, KillsRunningWorkersWithoutAGraceWhenTheLeaseIsOver) {  // R8
  Node node = running();
  node.kill();
  EXPECT_EQ(node.did(), (Arguments{"SIGKILL to 0", "SIGKILL to 1"}));
  node.kill();
  EXPECT_EQ(node.did(), Arguments{});
  node.ends(0, killed_by(SIGKILL));
  node.ends(1, killed_by(SIGKILL));
  node.alone();
  EXPECT_EQ(node.did(), (Arguments{"sweep SIGKILL", "stopped"}));
}

TEST(Supervisor, KillsWhatWorkersLeftBehindWhenTheLeaseIsOver) {  // R8
  Node node = running();
  node.ends(0, kGood);
  node.ends(1, kGood);
  node.did();
  node.kill();
  EXPECT_EQ(node.did(), Arguments{"sweep SIGKILL"});
}

TEST(Supervisor, GivesUpOnAWorkerThatEvenSigkillDoesNotEndAndNeverSaysItStopped) {  // R2
  Node node = running();
  node.ends(0, exited(1));
  node.pass(30s);
  node.did();
  node.pass(5s);
  EXPECT_EQ(node.did(), Arguments{"give up on 1"});
  node.ends(1, killed_by(SIGKILL));
  node.alone();
  EXPECT_EQ(node.did(), Arguments{});
  EXPECT_EQ(node.phase(), SupervisorPhase::kGivenUp);
}

TEST(Supervisor, StartsTheNextRoundAfresh) {
  Node node = running();
  node.ends(0, exited(3));
  node.ends(1, killed_by(SIGTERM));
  node.alone();
  node.did();
  node.start();
  EXPECT_EQ(node.did(), (Arguments{"spawn 0", "spawn 1", "running"}));
  EXPECT_EQ(node.due_in(), std::nullopt);
  node.ends(0, kGood);
  node.ends(1, kGood);
  node.alone();
  EXPECT_EQ(node.did().back(), "succeeded");
  EXPECT_TRUE(node.news().failures.empty());
}

TEST(Supervisor, IsNotStoppedWhileAnythingOfTheRoundIsLeft) {  // R2
  Node node = running();
  node.ends(0, exited(3));
  node.ends(1, kGood);
  node.did();
  node.pass(1s);
  EXPECT_EQ(node.did(), Arguments{"sweep SIGKILL"});
  node.alone();
  EXPECT_EQ(node.did(), Arguments{"stopped"});
}

TEST(Supervisor, LeavesTheAnswerToTheFirstSignalToOthers) {
  Node node = running();
  node.signalled(SIGINT);
  EXPECT_EQ(node.did(), Arguments{});
}

TEST(Supervisor, KillsAtOnceWhenTheSecondSignalComes) {
  Node node = running();
  node.signalled(SIGINT);
  node.stop(SIGINT);
  node.did();
  node.pass(1s);
  node.signalled(SIGINT);
  EXPECT_EQ(node.did(), (Arguments{"SIGKILL to 0", "SIGKILL to 1"}));
  node.ends(0, killed_by(SIGKILL));
  node.ends(1, killed_by(SIGKILL));
  EXPECT_EQ(node.did(), Arguments{"sweep SIGKILL"});
}

TEST(Supervisor, KillsAtTheSecondSignalThoughNobodyAnsweredTheFirst) {
  Node node = running();
  node.signalled(SIGINT);
  node.pass(1s);
  node.signalled(SIGTERM);
  EXPECT_EQ(node.did(), (Arguments{"SIGKILL to 0", "SIGKILL to 1"}));
}

TEST(Supervisor, TakesOneSignalDeliveredTwiceForOne) {
  Node node = running();
  node.signalled(SIGTERM);
  node.stop();
  node.did();
  node.pass(199ms);
  node.signalled(SIGTERM);
  EXPECT_EQ(node.did(), Arguments{});
  node.signalled(SIGINT);  // a different signal is another request
  EXPECT_EQ(node.did().size(), 2U);
}

TEST(Supervisor, DoesNotTryTheOthersWhenOneCannotBeExecuted) {
  Node node(two_workers());
  node.cannot_start(0);
  node.start();
  node.alone();
  EXPECT_EQ(
      node.did(),
      (Arguments{"spawn 0", "spawn 1", "failed", "cancel 1", "sweep SIGTERM", "stopped"}));
  ASSERT_EQ(node.news().failures.size(), 1U);
  EXPECT_EQ(node.news().failures[0].start_error, "no such file");
  EXPECT_FALSE(node.news().failures[0].can_be_retried);
}

TEST(Supervisor, StopsWhoRunsWhenTheNextOneCannotBeExecuted) {
  Node node(two_workers());
  node.cannot_start(1);
  node.start();
  EXPECT_EQ(node.did(), (Arguments{"spawn 0", "spawn 1", "failed", "SIGTERM to 0"}));
}

TEST(Supervisor, LeavesAShellsChildTheGraceOfItsWorker) {
  Node node = running();
  node.stop();
  node.did();
  node.pass(2s);
  node.ends(0, killed_by(SIGTERM), /*leaves_group=*/true);
  node.ends(1, killed_by(SIGTERM));
  EXPECT_EQ(node.did(), (Arguments{"sweep SIGTERM but 100"}));
  EXPECT_EQ(node.due_in(), 28s);
  node.pass(28s);
  EXPECT_EQ(node.did(), (Arguments{"sweep SIGKILL"}));
}

TEST(Supervisor, GivesWhatAFailedWorkerLeftBehindAShortGrace) {
  Node node = running();
  node.ends(0, exited(1), /*leaves_group=*/true);
  node.ends(1, killed_by(SIGTERM));
  EXPECT_EQ(node.did().back(), "sweep SIGTERM");
  EXPECT_EQ(node.due_in(), 1s);
}

/// A node whose workers have all exited with 0, and left something behind.
Node with_leftovers(LeftoverMode mode) {
  SupervisorPolicy policy = two_workers();
  policy.leftover_settle = 300ms;
  policy.leftovers = {.mode = mode, .limit = 600s};
  Node node(policy);
  node.start();
  node.ends(0, kGood);
  node.ends(1, kGood);
  node.did();
  node.pass(300ms);
  return node;
}

TEST(Supervisor, NamesAndKillsWhatASuccessLeavesOnlyAfterAMomentToEndByItself) {
  Node node = with_leftovers(LeftoverMode::kKill);
  EXPECT_EQ(node.did(), (Arguments{"kill leftovers", "sweep SIGTERM"}));
  node.pass(1s);
  EXPECT_EQ(node.did(), Arguments{"sweep SIGKILL"});
  node.alone();
  EXPECT_EQ(node.did(), Arguments{"succeeded"});
}

TEST(Supervisor, WaitsForLeftoversUpToItsLimit) {
  Node node = with_leftovers(LeftoverMode::kWait);
  EXPECT_EQ(node.did(), Arguments{"wait for leftovers"});
  EXPECT_EQ(node.due_in(), 600s);
  node.pass(600s);
  EXPECT_EQ(node.did(), (Arguments{"kill leftovers", "sweep SIGTERM"}));
}

TEST(Supervisor, EndsTheWaitForLeftoversWhenASignalComesOrTheJobIsStopped) {
  Node signalled = with_leftovers(LeftoverMode::kWait);
  signalled.did();
  signalled.signalled(SIGTERM);
  EXPECT_EQ(signalled.did(), (Arguments{"kill leftovers", "sweep SIGTERM"}));
  signalled.alone();
  EXPECT_EQ(signalled.did(), Arguments{"succeeded"});
  Node stopped = with_leftovers(LeftoverMode::kWait);
  stopped.did();
  stopped.stop();
  EXPECT_EQ(stopped.did(), (Arguments{"kill leftovers", "sweep SIGTERM"}));
}

TEST(Supervisor, KillsLeftoversThatItKeptBeforeTheNextRoundStarts) {  // R2
  Node node = with_leftovers(LeftoverMode::kKeep);
  EXPECT_EQ(node.did(), (Arguments{"keep leftovers", "succeeded"}));
  node.start();
  EXPECT_EQ(node.did(), (Arguments{"kill leftovers", "sweep SIGKILL"}));
  EXPECT_FALSE(node.has_succeeded());
  node.alone();
  EXPECT_EQ(node.did(), (Arguments{"spawn 0", "spawn 1", "running"}));
  EXPECT_EQ(node.due_in(), std::nullopt);
}

TEST(Supervisor, StartsNoRoundThatWasStoppedWhileKeptLeftoversEnded) {
  Node node = with_leftovers(LeftoverMode::kKeep);
  node.start();
  node.stop();
  node.did();
  node.alone();
  EXPECT_EQ(node.did(), Arguments{"stopped"});
}

TEST(Supervisor, StartsAtOnceWhereKeptLeftoversHaveEndedByThemselves) {
  Node node = with_leftovers(LeftoverMode::kKeep);
  node.alone();
  node.did();
  node.start();
  EXPECT_EQ(node.did(), (Arguments{"spawn 0", "spawn 1", "running"}));
}

/// In a Slurm step: the node does not know how long Slurm leaves.
Node given_notice() {
  SupervisorPolicy policy = two_workers();
  policy.notice_grace.reset();
  Node node(policy);
  node.start();
  node.did();
  node.notice(SIGUSR1);
  return node;
}

TEST(Supervisor, LeavesWorkersAsLongAsTheyNeedAfterANotice) {
  Node node = given_notice();
  EXPECT_EQ(node.did(), Arguments({"SIGUSR1 to 0", "SIGUSR1 to 1"}));
  EXPECT_EQ(node.due_in(), kQuiet);
  node.pass(1h);
  node.ends(0, exited(75));
  node.ends(1, kGood);
  node.alone();
  EXPECT_EQ(node.did(), Arguments({"sweep SIGTERM", "stopped"}));
  EXPECT_TRUE(node.news().has_saved);
  EXPECT_TRUE(node.news().failures.empty());
}

TEST(Supervisor, KillsAfterANoticeWhenTheUsersOwnGraceIsOver) {
  SupervisorPolicy policy = two_workers();
  policy.notice_grace = 10s;
  Node node(policy);
  node.start();
  node.notice();
  node.did();
  node.pass(10s);
  EXPECT_EQ(node.did(), Arguments({"SIGKILL to 0", "SIGKILL to 1"}));
}

TEST(Supervisor, TellsOfAWorkerThatDoesNotSaveAndGivesTheOthersTheGrace) {
  Node node = given_notice();
  node.ends(0, killed_by(SIGUSR1));
  EXPECT_EQ(node.did(), Arguments({"SIGUSR1 to 0", "SIGUSR1 to 1", "failed"}));
  EXPECT_EQ(node.due_in(), 30s);
  node.ends(1, exited(75));
  node.alone();
  EXPECT_FALSE(node.news().has_saved);
  EXPECT_EQ(node.news().failures.front().end, killed_by(SIGUSR1));
}

/// Signalled by Slurm, which kills workers and agent alike 20 s later.
Node told_by_slurm() {
  SupervisorPolicy policy = two_workers();
  policy.notice_grace.reset();
  Node node(policy);
  node.start();
  node.notice(SIGTERM, 20s);
  node.did();
  return node;
}

TEST(Supervisor, KillsWhoIsLeftAfterAWorkerThatDidNotSaveWhileThereIsTimeToSaySo) {
  Node node = told_by_slurm();
  node.ends(0, killed_by(SIGTERM));
  EXPECT_EQ(node.due_in(), 16s);
  node.pass(16s);
  EXPECT_EQ(node.did(), Arguments({"failed", "SIGKILL to 1"}));
}

TEST(Supervisor, LeavesTheWholeGraceToWhoIsLeftWhereSlurmDidNotKillInItsTime) {
  Node node = told_by_slurm();
  node.pass(17s);
  node.ends(0, killed_by(SIGTERM));
  EXPECT_EQ(node.due_in(), 30s);
}

/// In a Slurm step, if a worker has ended by what may be a notice.
Node ended_by_notice() {
  SupervisorPolicy policy = two_workers();
  policy.workers_get_notices = true;
  Node node(policy);
  node.start();
  node.did();
  node.ends(0, killed_by(SIGUSR1));
  return node;
}

TEST(Supervisor, LeavesTheOthersAloneUntilItIsKnownWhetherANoticeEndedTheFirst) {
  Node node = ended_by_notice();
  EXPECT_EQ(node.did(), Arguments({"failed"}));
  EXPECT_EQ(node.due_in(), std::nullopt);
  node.notice(SIGUSR1);
  EXPECT_EQ(node.did(), Arguments({"SIGUSR1 to 1"}));
  node.ends(1, exited(75));
  node.alone();
  EXPECT_FALSE(node.news().has_saved);
}

TEST(Supervisor, TakesAnExitWith75ForSavedThatItSawBeforeTheNotice) {
  SupervisorPolicy policy = two_workers();
  policy.workers_get_notices = true;
  Node node(policy);
  node.start();
  node.did();
  node.ends(0, exited(75));
  EXPECT_EQ(node.did(), Arguments({"failed"}));
  node.notice();
  EXPECT_EQ(node.did(), Arguments({"SIGTERM to 1"}));
  node.ends(1, kGood);
  node.alone();
  EXPECT_TRUE(node.news().has_saved);
  EXPECT_TRUE(node.news().failures.empty());
}

TEST(Supervisor, TakesAWorkerThatCouldNotBeStartedForNoneThatHasSaved) {
  SupervisorPolicy policy = two_workers();
  policy.workers_get_notices = true;
  Node node(policy);
  node.cannot_start(1, 75);
  node.start();
  EXPECT_EQ(node.did(), Arguments({"spawn 0", "spawn 1", "failed", "SIGTERM to 0"}));
  node.notice();
  node.ends(0, kGood);
  node.alone();
  EXPECT_FALSE(node.news().has_saved);
  EXPECT_EQ(node.news().failures.front().start_error, "no process");
}

TEST(Supervisor, TakesARoundOfWhichAWorkerNeverRanForNoneThatHasSaved) {
  Node node(two_workers());
  node.starts_slowly(1);
  node.start();
  node.notice();
  node.cancelled(1);
  node.ends(0, kGood);
  node.alone();
  EXPECT_FALSE(node.news().has_saved);
  EXPECT_TRUE(node.news().failures.empty());
}

TEST(Supervisor, LooksForNoEndWhileItIsNotKnownWhetherANoticeEndedAll) {
  Node node = ended_by_notice();
  node.ends(1, kGood);
  EXPECT_EQ(node.did(), Arguments({"failed"}));
  EXPECT_FALSE(node.has_succeeded());
  node.stop();
  EXPECT_EQ(node.did(), Arguments({"sweep SIGTERM"}));
}

TEST(Supervisor, KillsWhatIsLeftOfARoundThatMayHaveEndedByANotice) {  // R8
  Node node = ended_by_notice();
  node.ends(1, kGood);
  node.did();
  node.kill();
  EXPECT_EQ(node.did(), Arguments({"sweep SIGKILL"}));
  node.alone();
  EXPECT_EQ(node.did(), Arguments({"stopped"}));
}

TEST(Supervisor, NamesTheFirstWhereOthersFailWhileItIsNotKnownWhetherANoticeEndedIt) {
  Node node = ended_by_notice();
  node.ends(1, exited(1));
  EXPECT_EQ(node.did(), Arguments({"failed"}));
  node.stop();
  node.alone();
  EXPECT_EQ(node.news().failures.front().end, killed_by(SIGUSR1));
}

TEST(Supervisor, HurriesWhenAWorkerOfAnotherNodeDidNotSave) {
  Node node = given_notice();
  node.did();
  node.stop();
  EXPECT_EQ(node.did(), Arguments());
  EXPECT_EQ(node.due_in(), 30s);
}

TEST(Supervisor, DoesNotTakeSlurmsRepeatedNoticeForAPersonWhoIsInAHurry) {
  Node node = given_notice();
  node.did();
  node.repeated(SIGUSR1);
  node.pass(10s);
  node.repeated(SIGTERM);
  EXPECT_EQ(node.did(), Arguments());
  node.signalled(SIGINT);
  EXPECT_EQ(node.did(), Arguments({"SIGKILL to 0", "SIGKILL to 1"}));
}

TEST(Supervisor, TakesNoExitWith75ForSavedWithoutANotice) {
  Node node = running();
  node.ends(0, exited(75));
  node.ends(1, killed_by(SIGTERM));
  node.alone();
  EXPECT_FALSE(node.news().has_saved);
}

TEST(Supervisor, HasNoDeadlineWhileAllIsWell) {
  Node node = running();
  EXPECT_EQ(node.due_in(), std::nullopt);
  node.ends(0, exited(1));
  EXPECT_EQ(node.due_in(), 30s);
}

}  // namespace
}  // namespace ddprun
