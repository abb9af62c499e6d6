#include "agent/core/supervisor_table.hpp"

#include <gtest/gtest.h>

namespace ddprun {
namespace {

constexpr WorkerState kAllStates[] = {
    WorkerState::kIdle,
    WorkerState::kRunning,
    WorkerState::kStopping,
    WorkerState::kKilling,
    WorkerState::kExited};

TEST(Worker, IsSentTheStopSignalOnceHoweverOftenItIsStopped) {
  const auto first = step(WorkerState::kRunning, WorkerInput::kStop);
  EXPECT_EQ(first.action, WorkerAction::kSendStop);
  EXPECT_EQ(step(first.next, WorkerInput::kStop).action, WorkerAction::kNothing);
}

TEST(Worker, IsKilledOnceAndOnlyWhileItMayRun) {
  for (const auto state : kAllStates) {
    const auto next = step(state, WorkerInput::kKill);
    const bool may_run = state == WorkerState::kRunning || state == WorkerState::kStopping;
    EXPECT_EQ(next.action == WorkerAction::kSendKill, may_run);
  }
}

TEST(Worker, IsNeverSignalledAfterItsEndIsKnown) {
  for (const auto input : {WorkerInput::kStop, WorkerInput::kKill}) {
    const auto next = step(WorkerState::kExited, input);
    EXPECT_EQ(next.next, WorkerState::kExited);
    EXPECT_EQ(next.action, WorkerAction::kNothing);
  }
}

TEST(Worker, IsStartedOnlyWhereNoProcessOfItCanBeAlive) {
  for (const auto state : kAllStates) {
    const bool over = state == WorkerState::kIdle || state == WorkerState::kExited;
    EXPECT_EQ(step(state, WorkerInput::kStart).action == WorkerAction::kSpawn, over);
  }
}

}  // namespace
}  // namespace ddprun
