#include "agent/core/line_splitter.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

namespace ddprun {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

/// A splitter and the pieces that came out of it.
struct Splitter {
  explicit Splitter(std::size_t line_bytes_max) : lines(line_bytes_max) {}

  void feed(std::string_view bytes) {
    lines.feed(bytes, [this](std::string_view piece) { pieces.emplace_back(piece); });
  }
  void finish() {
    lines.finish([this](std::string_view piece) { pieces.emplace_back(piece); });
  }

  LineSplitter lines;
  std::vector<std::string> pieces;
};

TEST(LineSplitter, HandsOnManyLinesAtOnce) {
  Splitter splitter(100);
  splitter.feed("one\ntwo\nthree\n");
  EXPECT_THAT(splitter.pieces, ElementsAre("one\ntwo\nthree\n"));
}

TEST(LineSplitter, HoldsAnUnfinishedLineBackUntilItsNewlineComes) {
  Splitter splitter(100);
  splitter.feed("one\ntw");
  splitter.feed("o");
  EXPECT_THAT(splitter.pieces, ElementsAre("one\n"));
  splitter.feed("!\nthree\nfo");
  EXPECT_THAT(splitter.pieces, ElementsAre("one\n", "two!\n", "three\n"));
}

TEST(LineSplitter, HandsOutTheRestAtTheEnd) {
  Splitter splitter(100);
  splitter.feed("no newline");
  splitter.finish();
  splitter.finish();
  EXPECT_THAT(splitter.pieces, ElementsAre("no newline"));
}

TEST(LineSplitter, HasNothingToHandOutAfterAWholeLine) {
  Splitter splitter(100);
  splitter.feed("\n");
  splitter.pieces.clear();
  splitter.finish();
  EXPECT_THAT(splitter.pieces, IsEmpty());
}

TEST(LineSplitter, NeverHoldsMoreThanTheLimit) {
  Splitter splitter(8);
  for (int i = 0; i < 1000; ++i) {
    splitter.feed("abc");
    ASSERT_LE(splitter.lines.held_bytes(), 8U);
  }
  splitter.feed("\n");
  splitter.finish();
  std::string all;
  for (const auto& piece : splitter.pieces) {
    EXPECT_LE(piece.size(), 9U);
    all += piece;
  }
  EXPECT_EQ(all.size(), 3001U);
  EXPECT_TRUE(all.ends_with("abc\n"));
}

}  // namespace
}  // namespace ddprun
