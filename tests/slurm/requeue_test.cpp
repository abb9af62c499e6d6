#include "slurm/core/requeue.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <string>

namespace ddprun {
namespace {

using testing::HasSubstr;

std::string told(const std::string& state, const std::string& reason, int restarts) {
  return fmt::format(
      "JobId=7 JobName=train me UserId=u(1000) JobState={} Reason={} Dependency=(null) Requeue=1 "
      "Restarts={} BatchFlag=1 Reboot=0 ExitCode=0:0 Command=/home/u/Restarts=9.sh \n",
      state,
      reason,
      restarts);
}

std::string refusal(const std::string& text, int restarts) {
  const auto record = parse_job_record(text);
  if (!record) return record.error().detail;
  const auto checked = check_requeue(*record, restarts);
  return checked ? "" : checked.error().detail;
}

TEST(Requeue, KnowsItsWords) {
  EXPECT_EQ(parse_requeue("never"), Requeue::kNo);
  EXPECT_EQ(parse_requeue("on-preempt"), Requeue::kOnPreempt);
  EXPECT_EQ(parse_requeue("always"), Requeue::kAlways);
  EXPECT_EQ(parse_requeue("Always"), std::nullopt);
}

TEST(Requeue, IsWantedAfterANoticeAndWhereTryingAgainMayHelp) {
  const auto wanted = [](Requeue mode, int status, int stopped_by) {
    return wants_requeue(
        mode, {.exit_status = status, .notice_status = 85, .stopped_by = stopped_by});
  };
  for (const Requeue mode : {Requeue::kOnPreempt, Requeue::kAlways}) {
    EXPECT_TRUE(wanted(mode, 85, SIGTERM));
    EXPECT_TRUE(wanted(mode, 143, SIGTERM));  // the program saves without being told
    EXPECT_TRUE(wanted(mode, 138, SIGUSR1));
    EXPECT_TRUE(wanted(mode, 85, 0));  // another node got the notice
    EXPECT_TRUE(wanted(mode, 75, 0));  // nodes were lost
    EXPECT_FALSE(wanted(mode, 0, SIGTERM));
    EXPECT_FALSE(wanted(mode, 130, SIGINT));
    EXPECT_FALSE(wanted(mode, 85, SIGINT)) << "saved, since a person wanted the end";
    EXPECT_FALSE(wanted(mode, 2, 0));
  }
  EXPECT_FALSE(wanted(Requeue::kOnPreempt, 1, 0));
  EXPECT_TRUE(wanted(Requeue::kAlways, 1, 0));
  EXPECT_FALSE(wanted(Requeue::kAlways, 127, 0));
  EXPECT_FALSE(wanted(Requeue::kNo, 85, SIGTERM));
}

TEST(Requeue, IsAskedForOnceAndNotAgainstAPersonsWill) {
  EXPECT_EQ(refusal(told("RUNNING", "None", 0), 0), "");
  EXPECT_EQ(refusal(told("COMPLETING", "TimeLimit", 2), 2), "");
  EXPECT_EQ(refusal(told("PREEMPTED", "None", 0), 0), "");
  // The worker had saved before Slurm had finished sending the notice.
  EXPECT_EQ(refusal(told("SIGNALING", "None", 0), 0), "");
  EXPECT_EQ(refusal(told("COMPLETING", "None", 1), 0), "Slurm already starts it again");
  EXPECT_EQ(
      refusal(told("COMPLETING", "None", 0), 0), "it was ended from outside (state COMPLETING)");
  EXPECT_EQ(refusal(told("RUNNING", "None", 100), 100), "it was already started again 100 times");
}

TEST(Requeue, SaysWhyAJobMayNotBeStartedAgain) {
  std::string text = told("RUNNING", "None", 0);
  text.replace(text.find("Requeue=1"), 9, "Requeue=0");
  EXPECT_EQ(refusal(text, 0), "it was submitted with --no-requeue");
  text.replace(text.find("BatchFlag=1"), 11, "BatchFlag=0");
  EXPECT_EQ(refusal(text, 0), "it was not submitted by sbatch");
}

TEST(Requeue, RefusesWhatIsNoAnswerOfScontrols) {
  for (const char* const text :
       {"",
        "slurm_load_jobs error",
        "JobState=RUNNING Reason=None",
        "JobState=RUNNING Reason=None Restarts=many"}) {
    EXPECT_THAT(refusal(text, 0), HasSubstr("no JobState, Reason or Restarts")) << text;
  }
}

}  // namespace
}  // namespace ddprun
