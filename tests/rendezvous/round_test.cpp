#include "rendezvous/core/round.hpp"

#include <gtest/gtest.h>

#include <initializer_list>

namespace ddprun {
namespace {

using enum RoundPhase;

constexpr RoundPhase kPhases[kRoundPhases] = {kGathering, kOffered, kRunning, kStopping};

RoundPhase after(std::initializer_list<RoundEvent> events) {
  RoundPhase phase = kGathering;
  for (const RoundEvent event : events) {
    const auto [next, action] = step(phase, event);
    EXPECT_NE(action, RoundAction::kBug);
    phase = next;
  }
  return phase;
}

TEST(Round, RunsFromGatheringToGathering) {
  using enum RoundEvent;
  EXPECT_EQ(after({kEnoughNodes}), kOffered);
  EXPECT_EQ(after({kEnoughNodes, kAcknowledged}), kRunning);
  EXPECT_EQ(after({kEnoughNodes, kAcknowledged, kStop}), kStopping);
  EXPECT_EQ(after({kEnoughNodes, kAcknowledged, kStop, kAllEnded}), kGathering);
}

TEST(Round, ThatIsOnOfferEndsWithAnyMemberOfItsVoterSet) {
  EXPECT_EQ(after({RoundEvent::kEnoughNodes, RoundEvent::kMemberGone}), kGathering);
}

TEST(Round, ThatWasStartedOutlivesTheConnectionsOfItsMembers) {
  EXPECT_EQ(step(kRunning, RoundEvent::kMemberGone).next, kRunning);
  EXPECT_EQ(step(kStopping, RoundEvent::kMemberGone).next, kStopping);
}

TEST(Round, StartsOnlyFromAnOfferAndIsOverOnlyOnceItWasStopped) {
  for (const RoundPhase phase : kPhases) {
    const RoundStep start = step(phase, RoundEvent::kAcknowledged);
    const RoundStep close = step(phase, RoundEvent::kAllEnded);
    EXPECT_EQ(start.action, phase == kOffered ? RoundAction::kStart : RoundAction::kBug);
    EXPECT_EQ(close.action, phase == kStopping ? RoundAction::kClose : RoundAction::kBug);
  }
}

TEST(Round, ThatRunsIsStoppedByTheVerdict) {
  EXPECT_EQ(step(kRunning, RoundEvent::kVerdict).action, RoundAction::kStop);
  EXPECT_EQ(step(kOffered, RoundEvent::kVerdict).action, RoundAction::kCancel);
}

}  // namespace
}  // namespace ddprun
