#include "agent/core/suspension.hpp"

#include <gtest/gtest.h>

namespace ddprun {
namespace {

using namespace std::chrono_literals;

constexpr TimePoint kResumed = TimePoint() + 1h;

TEST(Suspension, EndsALeaseThatWasRenewedBefore) {
  EXPECT_TRUE(ends_by_suspension(kResumed + 200ms, 3s, kResumed, false));
}

// Of three nodes the leader and a follower lost their lease in the same suspension, and came back
// under new incarnations. The third one had sent a heartbeat as soon as it was resumed, and the
// leader had granted it a whole lease in its last moments: it waited 30 s for the two, and ended
// with 75.
TEST(Suspension, EndsALeaseThatTheLeaderRenewedInItsLastMoments) {
  EXPECT_TRUE(ends_by_suspension(kResumed + 50ms + 3s, 3s, kResumed, true));
  EXPECT_FALSE(ends_by_suspension(kResumed + 50ms + 3s, 3s, kResumed, false));  // it may be cut off
}

TEST(Suspension, DoesNotEndALeaseOfALeaderThatOutlivedIt) {
  EXPECT_FALSE(ends_by_suspension(kResumed + 6100ms, 3s, kResumed, true));
}

}  // namespace
}  // namespace ddprun
