#include "agent/core/prefix.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace ddprun {
namespace {

constexpr PrefixValues kValues{.role = "trainer", .rank = 12, .local_rank = 4, .host = "node1"};

TEST(Prefix, LooksLikeTorchrunsByDefault) {
  EXPECT_EQ(expand_prefix(kDefaultPrefixTemplate, kValues), "[trainer4]:");
}

TEST(Prefix, KnowsFourNamesAndLeavesTheRestAlone) {
  EXPECT_EQ(
      expand_prefix("${hostname}:${rank}/${local_rank} ${host} $", kValues),
      "node1:12/4 ${host} $");
  EXPECT_EQ(expand_prefix("$rank/$local_rank:$hostname", kValues), "12/4:node1");
  EXPECT_EQ(
      expand_prefix("$$rank $rank_ ${rank $ {rank}", kValues), "$rank $rank_ ${rank $ {rank}");
}

/// The lines of one stream that arrives in these pieces.
std::string prefixed(const std::vector<std::string>& pieces) {
  std::string out;
  bool is_open = false;
  for (const std::string& piece : pieces)
    append_prefixed(piece, "> ", out, is_open);
  return out;
}

TEST(Prefix, StandsBeforeEveryLine) {
  std::string out;
  bool is_open = false;
  EXPECT_EQ(append_prefixed("a\n\nb\n", "> ", out, is_open), 3U);
  EXPECT_EQ(out, "> a\n> \n> b\n");
  EXPECT_FALSE(is_open);
}

TEST(Prefix, GivesALineWithoutANewlineOne) {
  std::string out;
  bool is_open = false;
  EXPECT_EQ(append_prefixed("half", "> ", out, is_open), 1U);
  EXPECT_EQ(out, "> half\n");
  EXPECT_TRUE(is_open);
}

TEST(Prefix, StandsBeforeEachStepOfAProgressBar) {
  EXPECT_EQ(prefixed({"\r 1%\r 2%\n\r 3%"}), ">  1%\n>  2%\n>  3%\n");
}

TEST(Prefix, TakesTheCarriageReturnOfALineThatEndsInBothOff) {
  EXPECT_EQ(prefixed({"a\r\n\r\n"}), "> a\n> \n");
}

TEST(Prefix, StandsBeforeNoNewlineThatEndsALineShownBefore) {
  EXPECT_EQ(prefixed({"a\r", "\n", "b\n"}), "> a\n> b\n");
  EXPECT_EQ(prefixed({"a", "\r", "\r\n", "\n"}), "> a\n> \n");
  EXPECT_EQ(prefixed({"\r 1%", "\r 2%", "\nb\n"}), ">  1%\n>  2%\n> b\n");
  EXPECT_EQ(prefixed({"half", " a line\n", "\n"}), "> half\n>  a line\n> \n");
}

TEST(Prefix, StandsBeforeNoCarriageReturnAlone) {
  EXPECT_EQ(prefixed({"a\n\r", "b\n"}), "> a\n> b\n");
  EXPECT_EQ(prefixed({"\r", "\n", "\r\r"}), "> \n");
}

TEST(Prefix, SetsAsideOnlyTheLinesWithOneOfTheTexts) {
  const std::vector<std::string> texts = {"loss", "acc"};
  std::string out;
  append_matching("loss 1\nnothing\nmy accuracy\n", "> ", texts, out);
  EXPECT_EQ(out, "> loss 1\n> my accuracy\n");
}

}  // namespace
}  // namespace ddprun
