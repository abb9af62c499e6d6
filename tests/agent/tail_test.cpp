#include "agent/core/tail.hpp"

#include <gtest/gtest.h>

#include <string>

namespace ddprun {
namespace {

TEST(Tail, KeepsTheLastBytesInBoundedMemory) {
  Tail tail;
  for (int i = 0; i < 100'000; ++i) {
    tail.append("line " + std::to_string(i) + "\n");
    ASSERT_LE(tail.text().size(), 2 * kTailBytes);
  }
  EXPECT_GE(tail.text().size(), kTailBytes);
  EXPECT_TRUE(tail.text().ends_with("line 99998\nline 99999\n"));
}

TEST(Tail, KeepsTheEndOfOneLargePiece) {
  Tail tail;
  tail.append(std::string(10 * kTailBytes, 'a') + "z");
  EXPECT_EQ(tail.text().size(), kTailBytes);
  EXPECT_TRUE(tail.text().ends_with("az"));
}

TEST(LastLines, AreCountedFromTheEnd) {
  EXPECT_EQ(last_lines_of("a\nb\nc\n", 2), "b\nc");
  EXPECT_EQ(last_lines_of("a\nb\nc\n", 9), "a\nb\nc");
  EXPECT_EQ(last_lines_of("10 %\r20 %\r\nb\r\n", 9), "20 %\nb")
      << "else it would show over our text";
  EXPECT_EQ(last_lines_of("", 3), "");
  EXPECT_EQ(last_lines_of("a\n", 0), "");
}

TEST(LastLines, CountALineWithoutItsNewline) {
  EXPECT_EQ(last_lines_of("a\nb", 1), "b");
  EXPECT_EQ(last_lines_of("a\nb", 2), "a\nb");
}

TEST(LastLines, KeepEmptyLines) {
  EXPECT_EQ(last_lines_of("\n\nb\n", 2), "\nb");
  EXPECT_EQ(last_lines_of("\nb\n", 2), "\nb");
}

TEST(LastLines, AreCutWhenTheyAreTooLong) {
  const std::string line(kReportLineBytesMax + 1, 'x');
  EXPECT_EQ(last_lines_of(line + "\nend", 2), std::string(kReportLineBytesMax, 'x') + "…\nend");
}

}  // namespace
}  // namespace ddprun
