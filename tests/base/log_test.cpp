// Log lines and reports: what reaches stderr, in which order, and where else they can go.

#include "base/log.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

namespace ddprun {
namespace {

/// What `speak` writes to stderr.
std::string stderr_of(const auto& speak) {
  testing::internal::CaptureStderr();
  speak();
  return testing::internal::GetCapturedStderr();
}

TEST(Log, WritesLogLinesAndReportsInTheOrderOfTheCalls) {
  const std::string text = stderr_of([] {
    EXPECT_TRUE(start_log("program", "INFO"));
    report("{} of {} joined", 1, 2);
    spdlog::info("a line");
    report_lines("======\nprogram: a report\n  next: {}\n");
    spdlog::debug("too quiet");
    report_lines("");
    spdlog::warn("another");
    report("100% {{}}");
  });
  EXPECT_THAT(
      text,
      testing::MatchesRegex("program: 1 of 2 joined\n"
                            "[0-9:.]+ program info a line\n"
                            "======\nprogram: a report\n  next: [{][}]\n"
                            "[0-9:.]+ program warning another\n"
                            "program: 100% [{][}]\n"));
}

TEST(Log, ReportsAtEveryLevel) {
  EXPECT_EQ(
      stderr_of([] {
        EXPECT_TRUE(start_log("program", "CRITICAL"));
        spdlog::error("too quiet");
        report("a report");
        EXPECT_FALSE(start_log("program", "LOUD"));
        report("LOGLEVEL");
      }),
      "program: a report\nprogram: LOGLEVEL\n");
}

TEST(Log, LosesNothingAndTearsNothingWhereItGoesElsewhereAndBack) {
  constexpr int kThreads = 4;
  constexpr int kReports = 500;
  std::string taken;  // by one thread at a time
  const std::string written = stderr_of([&taken] {
    EXPECT_TRUE(start_log("program", ""));
    std::vector<std::thread> threads;
    threads.reserve(kThreads);
    for (int i = 0; i < kThreads; ++i) {
      threads.emplace_back([] {
        for (int k = 0; k < kReports; ++k)
          report_lines("one\ntwo\n");
      });
    }
    for (int i = 0; i < 100; ++i) {
      log_to([&taken](std::string_view lines) { taken += lines; });
      log_to({});
    }
    for (auto& thread : threads)
      thread.join();
  });
  std::string expected;
  for (int i = 0; i < kThreads * kReports; ++i)
    expected += "one\ntwo\n";
  EXPECT_EQ(taken + written, expected);
}

}  // namespace
}  // namespace ddprun
