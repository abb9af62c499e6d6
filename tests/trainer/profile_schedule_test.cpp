#include "trainer/core/profile_schedule.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace ddprun {
namespace {

using ::testing::HasSubstr;

/// The first `steps` steps: "." rests, "w" warms up, "r" records, "s" records and saves.
std::string actions(const ProfileSchedule& schedule, int steps) {
  std::string text;
  for (int step = 0; step < steps; ++step) {
    text += ".wrs"[static_cast<int>(profile_action(schedule, step))];
  }
  return text;
}

std::string refusal_of(const char* text) {
  const auto schedule = parse_profile_schedule(text);
  return schedule ? "accepted" : schedule.error().detail;
}

// The results of torch.profiler.schedule() of torch 2.11 for the same numbers.
TEST(ProfileSchedule, RecordsTheStepsThatPythonsDoes) {
  EXPECT_EQ(actions({}, 10), "..wwrs....");
  EXPECT_EQ(actions(kCrusoeProfile, 14), ".wrrs.wrrs....");
  EXPECT_EQ(actions({.wait = 0, .warmup = 0, .active = 1, .repeat = 2}, 4), "ss..");
}

TEST(ProfileSchedule, ContinuesForeverWithoutANumberOfCycles) {
  EXPECT_EQ(actions({.wait = 1, .warmup = 0, .active = 2, .repeat = 0}, 9), ".rs.rs.rs");
}

TEST(ProfileSchedule, IsReadFromFourNumbers) {
  EXPECT_EQ(
      *parse_profile_schedule("1,0,3,0"),
      (ProfileSchedule{.wait = 1, .warmup = 0, .active = 3, .repeat = 0}));
}

TEST(ProfileSchedule, IsRefusedWithTheNumberThatIsWrong) {
  EXPECT_THAT(refusal_of("1,2,3"), HasSubstr("'1,2,3' is not a schedule"));
  EXPECT_THAT(refusal_of("1,2,3,4,5"), HasSubstr("expected four numbers"));
  EXPECT_THAT(refusal_of("1,-2,3,4"), HasSubstr("'-2' is not a whole number"));
  EXPECT_THAT(refusal_of("1,,3,4"), HasSubstr("'' is not a whole number"));
  EXPECT_THAT(refusal_of("1,2,0,4"), HasSubstr("must record at least one step"));
  EXPECT_THAT(refusal_of("1000000,1,1,1"), HasSubstr("at most 1000000 steps"));
}

TEST(TraceFileName, IsTheOneThatTensorBoardLooksFor) {
  EXPECT_EQ(trace_file_name(3, 17), "rank_3.17.pt.trace.json");
}

}  // namespace
}  // namespace ddprun
