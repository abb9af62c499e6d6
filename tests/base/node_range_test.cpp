#include "base/node_range.hpp"

#include <gtest/gtest.h>

namespace ddprun {
namespace {

TEST(NodeRange, ReadsOneNumberAsBothEnds) {
  const auto range = NodeRange::parse("4");
  ASSERT_TRUE(range);
  EXPECT_EQ(*range, NodeRange(4, 4));
}

TEST(NodeRange, ReadsMinimumAndMaximum) {
  const auto range = NodeRange::parse("2:4");
  ASSERT_TRUE(range);
  EXPECT_EQ(range->min(), 2);
  EXPECT_EQ(range->max(), 4);
}

TEST(NodeRange, NamesThePartThatIsWrong) {
  const auto detail = [](const char* text) { return NodeRange::parse(text).error().detail; };
  EXPECT_EQ(detail("4:2"), "the minimum exceeds the maximum");
  EXPECT_EQ(detail("0"), "a job needs at least one node");
  EXPECT_EQ(detail("1:2:3"), "expected N or MIN:MAX");
  EXPECT_EQ(detail(""), "expected N or MIN:MAX");
  EXPECT_EQ(detail("1:99999"), "the limit is 16384");
}

}  // namespace
}  // namespace ddprun
