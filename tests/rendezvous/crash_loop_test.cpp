#include "rendezvous/core/crash_loop.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <string>
#include <utility>
#include <vector>

namespace ddprun {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;

FailureNews exited_with(int status) {
  FailureNews failure;
  failure.pid = 7;
  failure.exit_status = status;
  return failure;
}

FailureNews ended_by(int signal) {
  FailureNews failure = exited_with(128 + signal);
  failure.signal = signal;
  return failure;
}

TEST(CrashLoop, WaitsTwiceAsLongEachTime) {
  CrashLoop loop;
  std::vector<Duration> pauses;
  for (int attempt = 0; attempt < 9; ++attempt) {
    loop.failed(exited_with(1), 100ms, false);
    pauses.push_back(loop.pause());
  }
  EXPECT_THAT(pauses, ElementsAre(0s, 1s, 2s, 4s, 8s, 16s, 30s, 30s, 30s));
  EXPECT_EQ(loop.in_a_row(), 9);
}

TEST(CrashLoop, WaitsNoLongerHoweverOftenTheyCrash) {
  CrashLoop loop;
  for (int attempt = 0; attempt < 1'000; ++attempt)
    loop.failed(exited_with(1), 100ms, false);
  EXPECT_EQ(loop.pause(), 30s);
}

TEST(CrashLoop, EndsWithAnythingElse) {
  for (const auto& [other, ran_for] : std::vector<std::pair<FailureNews, Duration>>{
           {ended_by(SIGKILL), 100ms}, {exited_with(kExitTryAgain), 100ms}, {exited_with(1), 5s}}) {
    CrashLoop loop;
    loop.failed(exited_with(1), 100ms, false);
    loop.failed(exited_with(1), 100ms, false);
    loop.failed(other, ran_for, false);
    EXPECT_EQ(loop.in_a_row(), 0);
    EXPECT_EQ(loop.pause(), 0s);
    EXPECT_FALSE(loop.repeats());
    loop.failed(exited_with(1), 100ms, false);
    EXPECT_EQ(loop.pause(), 0s);
    EXPECT_FALSE(loop.repeats());
  }
}

TEST(CrashLoop, RepeatsItselfWhereTwoEndAlikeBeforeTheStore) {
  CrashLoop loop;
  loop.failed(exited_with(1), 100ms, false);
  EXPECT_FALSE(loop.repeats());
  loop.failed(exited_with(1), 4s, false);
  EXPECT_TRUE(loop.repeats());
  loop.failed(exited_with(2), 100ms, false);
  EXPECT_FALSE(loop.repeats());
  loop.failed(exited_with(2), 100ms, true);
  EXPECT_FALSE(loop.repeats());
  loop.failed(exited_with(2), 100ms, false);  // the previous one came further
  EXPECT_FALSE(loop.repeats());
}

FailureNews said(const std::string& line) {
  FailureNews failure = exited_with(1);
  failure.last_line = TextLine{.text = line};
  return failure;
}

TEST(CrashLoop, DoesNotRepeatItselfWhereTheLastLinesDiffer) {
  CrashLoop loop;
  loop.failed(said("OSError: no such licence"), 100ms, false);
  loop.failed(said("ValueError: no such file"), 100ms, false);
  EXPECT_FALSE(loop.repeats());
  EXPECT_EQ(loop.in_a_row(), 2);
  loop.failed(said("ValueError: no such file"), 100ms, false);
  EXPECT_TRUE(loop.repeats());
  loop.failed(exited_with(1), 100ms, false);  // as far as is known
  EXPECT_TRUE(loop.repeats());
}

TEST(CrashLoop, NeedsTheLastLineWhereThatDecides) {
  CrashLoop loop;
  EXPECT_FALSE(loop.needs_last_line(exited_with(1), 100ms, false));
  loop.failed(exited_with(1), 100ms, false);
  EXPECT_FALSE(
      loop.needs_last_line(exited_with(1), 100ms, false));  // the first one's line is not known
  loop.learned(said("OSError: no such licence"));
  EXPECT_TRUE(loop.needs_last_line(exited_with(1), 100ms, false));
  EXPECT_FALSE(loop.needs_last_line(said("KeyError"), 100ms, false));
  EXPECT_FALSE(loop.needs_last_line(exited_with(2), 100ms, false));
  EXPECT_FALSE(loop.needs_last_line(exited_with(1), 5s, false));
  EXPECT_FALSE(loop.needs_last_line(exited_with(1), 100ms, true));
  EXPECT_FALSE(loop.needs_last_line(ended_by(SIGKILL), 100ms, false));
}

TEST(CrashLoop, CountsWhatCouldNotBeStarted) {
  CrashLoop loop;
  FailureNews unstarted;
  unstarted.exit_status = kExitTryAgain;
  loop.failed(unstarted, 1ms, false);
  loop.failed(unstarted, 1ms, false);
  EXPECT_EQ(loop.pause(), 1s);
}

}  // namespace
}  // namespace ddprun
