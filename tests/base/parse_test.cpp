#include "base/parse.hpp"

#include <gtest/gtest.h>

#include <cstdint>

namespace ddprun {
namespace {

using namespace std::chrono_literals;

TEST(Parse, TakesOnlyWholeNumbersThatFit) {
  EXPECT_EQ(parse_int<int>("-7"), -7);
  EXPECT_EQ(parse_int<std::uint16_t>("65535"), 65535);
  EXPECT_EQ(parse_int<std::uint16_t>("65536"), std::nullopt);
  EXPECT_EQ(parse_int<int>("7x"), std::nullopt);
  EXPECT_EQ(parse_int<int>(" 7"), std::nullopt);
  EXPECT_EQ(parse_int<int>(""), std::nullopt);
}

TEST(Parse, TakesOnlyFiniteDecimals) {
  EXPECT_EQ(parse_double("0.25"), 0.25);
  EXPECT_EQ(parse_double("nan"), std::nullopt);
  EXPECT_EQ(parse_double("inf"), std::nullopt);
  EXPECT_EQ(parse_double("1,5"), std::nullopt);
}

TEST(Parse, KnowsTheWordsOfTruth) {
  EXPECT_EQ(parse_bool("Yes"), true);
  EXPECT_EQ(parse_bool("0"), false);
  EXPECT_EQ(parse_bool("maybe"), std::nullopt);
}

TEST(Parse, TakesSecondsThatAreNotNegative) {
  EXPECT_EQ(parse_seconds("1.5"), 1500ms);
  EXPECT_EQ(parse_seconds("-1"), std::nullopt);
  EXPECT_EQ(parse_seconds("1e30"), std::nullopt);
}

TEST(Parse, SplitsIntoPiecesWithEmptyOnesKept) {
  EXPECT_EQ(split("a,,b", ',').size(), 3U);
  EXPECT_EQ(split("", ',').size(), 1U);
  EXPECT_EQ(trim("  a b\t"), "a b");
  EXPECT_EQ(trim(" \n"), "");
}

}  // namespace
}  // namespace ddprun
