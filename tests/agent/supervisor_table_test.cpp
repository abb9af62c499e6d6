#include "agent/core/supervisor_table.hpp"

#include "agent/core/supervisor.hpp"

#include <gtest/gtest.h>

#include <csignal>
#include <cstddef>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace ddprun {
namespace {

using namespace std::chrono_literals;
using Phase = SupervisorPhase;
using Input = SupervisorInput;
using Action = SupervisorAction;
using Cells = std::set<std::pair<Phase, Input>>;

std::vector<Phase> all_phases() {
  std::vector<Phase> phases;
  phases.reserve(kSupervisorPhases);
  for (std::size_t i = 0; i < kSupervisorPhases; ++i) {
    phases.push_back(static_cast<Phase>(i));
  }
  return phases;
}

std::vector<Input> all_inputs() {
  std::vector<Input> inputs;
  inputs.reserve(kSupervisorInputs);
  for (std::size_t i = 0; i < kSupervisorInputs; ++i) {
    inputs.push_back(static_cast<Input>(i));
  }
  return inputs;
}

/// The cells of the table for which `is` holds.
template <class Predicate>
Cells cells(Predicate is) {
  Cells found;
  for (const Phase phase : all_phases()) {
    for (const Input input : all_inputs()) {
      if (is(step(phase, input))) found.emplace(phase, input);
    }
  }
  return found;
}

Cells that_lead_to(Phase next) {
  return cells([next](const SupervisorStep& found) { return found.next == next; });
}

bool may_run_workers(Phase phase) {
  return phase == Phase::kRunning || phase == Phase::kStopping || phase == Phase::kKilling;
}

TEST(SupervisorTable, NamesTheNextPhaseIfAndOnlyIfTheActionEntersOne) {
  for (const Phase phase : all_phases()) {
    for (const Input input : all_inputs()) {
      const auto found = step(phase, input);
      const bool enters = found.action == Action::kEnter || found.action == Action::kForget;
      EXPECT_EQ(found.next.has_value(), enters);
    }
  }
}

TEST(SupervisorTable, StartsWorkersOnlyWhenNothingOfAnEarlierRoundRuns) {  // R2
  EXPECT_EQ(
      that_lead_to(Phase::kRunning),
      (Cells{{Phase::kIdle, Input::kStartRound}, {Phase::kClearing, Input::kAlone}}));
}

TEST(SupervisorTable, CountsARoundAsASuccessOnlyAtTheLastEndOfARunningWorker) {  // R6
  EXPECT_EQ(that_lead_to(Phase::kSettling), (Cells{{Phase::kRunning, Input::kLastEnded}}));
}

TEST(SupervisorTable, KillsInEveryPhaseInWhichAnythingMayRun) {  // R8
  const std::set<Phase> none_to_kill = {Phase::kIdle, Phase::kKeeping, Phase::kGivenUp};
  const std::set<Phase> killing = {Phase::kKilling, Phase::kSweepKilling};
  for (const Phase phase : all_phases()) {
    if (none_to_kill.contains(phase)) continue;
    EXPECT_TRUE(killing.contains(step(phase, Input::kKill).next.value_or(phase)));
  }
}

TEST(SupervisorTable, EndsEveryPhaseThatHasALimitWithoutHelp) {
  for (const auto mode : {LeftoverMode::kKill, LeftoverMode::kWait, LeftoverMode::kKeep}) {
    for (Phase phase : {Phase::kStopping, Phase::kKilling, Phase::kSettling, Phase::kClearing}) {
      std::size_t steps = 0;
      while (phase != Phase::kGivenUp && phase != Phase::kKeeping && ++steps < kSupervisorPhases) {
        phase = step(phase, Input::kTimeout).next.value_or(after_settling(mode));
      }
      EXPECT_LT(steps, kSupervisorPhases);
    }
  }
}

TEST(SupervisorTable, StartsNoWorkerAgainAfterItHasGivenUp) {  // R2
  for (const Input input : all_inputs()) {
    EXPECT_EQ(step(Phase::kGivenUp, input).next, std::nullopt);
  }
}

TEST(SupervisorTable, CallsADefectOnlyWhatCannotHappen) {
  Cells impossible;
  for (const Phase phase : all_phases()) {
    const bool may_start = phase == Phase::kIdle || phase == Phase::kKeeping;
    if (!may_start) impossible.emplace(phase, Input::kStartRound);
    const bool may_start_one = may_run_workers(phase) || phase == Phase::kGivenUp;
    if (!may_start_one) impossible.emplace(phase, Input::kSpawned);
    const bool may_end = may_run_workers(phase) || phase == Phase::kGivenUp;
    if (!may_end) impossible.emplace(phase, Input::kEnded);
    if (!may_run_workers(phase)) impossible.emplace(phase, Input::kLastEnded);
    const bool has_no_limit = may_start || phase == Phase::kGivenUp;
    if (has_no_limit) impossible.emplace(phase, Input::kTimeout);
  }
  EXPECT_EQ(
      cells([](const SupervisorStep& found) { return found.action == Action::kBug; }), impossible);
}

/// The events that lead a supervisor of one worker from kIdle to `phase`.
std::vector<Supervisor::Event> way_to(Phase phase) {
  using S = Supervisor;
  const S::StartRound start;
  const S::Spawned spawned{.local_rank = 0, .pid = 100};
  const S::Ended ended;
  const std::map<Phase, std::vector<S::Event>> ways = {
      {Phase::kIdle, {}},
      {Phase::kKeeping, {start, spawned, ended, S::Tick{}}},
      {Phase::kRunning, {start, spawned}},
      {Phase::kStopping, {start, spawned, S::StopRound{}}},
      {Phase::kKilling, {start, spawned, S::Kill{}}},
      {Phase::kSettling, {start, spawned, ended}},
      {Phase::kWaiting, {start, spawned, ended, S::Tick{}}},
      {Phase::kSweeping, {start, spawned, S::StopRound{}, ended}},
      {Phase::kSweepKilling, {start, spawned, S::Kill{}, ended}},
      {Phase::kClearing, {start, spawned, ended, S::Tick{}, start}},
      {Phase::kGivenUp, {start, spawned, S::Kill{}, S::Tick{}}}};
  return ways.at(phase);
}

/// A supervisor of one worker, in a phase of its table.
class OneWorker {
 public:
  /// `is_starting`: the worker is still being started.
  explicit OneWorker(Phase phase, bool is_starting = false) : supervisor_(policy_for(phase)) {
    for (const auto& event : way_to(phase)) {
      if (is_starting && std::holds_alternative<Supervisor::Spawned>(event)) continue;
      feed(event);
    }
  }

  void feed(const Supervisor::Event& event) {
    if (std::holds_alternative<Supervisor::Tick>(event)) now_ += 1h;
    Supervisor::Effects effects;
    supervisor_.apply(event, now_, effects);
  }

  void feed(Input input) {
    switch (input) {
      case Input::kStartRound:
        return feed(Supervisor::StartRound{});
      case Input::kStopRound:
        return feed(Supervisor::StopRound{});
      case Input::kKill:
        return feed(Supervisor::Kill{});
      case Input::kSpawned:
        return feed(Supervisor::Spawned{});
      case Input::kEnded:
      case Input::kLastEnded:
        return feed(Supervisor::Ended{});
      case Input::kAlone:
        return feed(Supervisor::Alone{});
      case Input::kSignalled:
        return feed(Supervisor::Signalled{.signal = SIGTERM});
      case Input::kTimeout:
        return feed(Supervisor::Tick{});
    }
  }

  Phase phase() const { return supervisor_.phase(); }

 private:
  static SupervisorPolicy policy_for(Phase phase) {
    SupervisorPolicy policy;
    const bool keeps = phase == Phase::kKeeping || phase == Phase::kClearing;
    if (keeps) policy.leftovers.mode = LeftoverMode::kKeep;
    if (phase == Phase::kWaiting) policy.leftovers.mode = LeftoverMode::kWait;
    return policy;
  }

  Supervisor supervisor_;
  TimePoint now_;
};

/// The phase after an input that the table allows; with one worker, the first end is the last.
Phase expected(Phase phase, Input input) {
  if (input == Input::kEnded && may_run_workers(phase)) input = Input::kLastEnded;
  const auto found = step(phase, input);
  if (found.action == Action::kApplyLeftover) return after_settling(LeftoverMode::kKill);
  return found.next.value_or(phase);
}

TEST(Supervisor, FollowsItsTableFromEveryPhase) {
  for (const Phase phase : all_phases()) {
    ASSERT_EQ(OneWorker(phase).phase(), phase);
    for (const Input input : all_inputs()) {
      if (step(phase, input).action == Action::kBug) continue;
      SCOPED_TRACE(std::to_string(int(phase)) + " × " + std::to_string(int(input)));
      OneWorker node(phase, input == Input::kSpawned);
      node.feed(input);
      EXPECT_EQ(node.phase(), expected(phase, input));
    }
  }
}

TEST(SupervisorDeathTest, EndsTheProcessAtAnInputThatCannotHappen) {
  for (const Phase phase : {Phase::kRunning, Phase::kSweeping, Phase::kGivenUp}) {
    OneWorker node(phase);
    EXPECT_EXIT(node.feed(Input::kStartRound), testing::ExitedWithCode(70), "no such step");
  }
}

}  // namespace
}  // namespace ddprun
