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
}

TEST(Prefix, StandsBeforeEveryLine) {
  std::string out;
  EXPECT_EQ(append_prefixed("a\n\nb\n", "> ", out), 3U);
  EXPECT_EQ(out, "> a\n> \n> b\n");
}

TEST(Prefix, GivesALineWithoutANewlineOne) {
  std::string out;
  EXPECT_EQ(append_prefixed("half", "> ", out), 1U);
  EXPECT_EQ(out, "> half\n");
}

TEST(Prefix, StandsBeforeEachStepOfAProgressBar) {
  std::string out;
  append_prefixed("\r 1%\r 2%\n\r 3%", "> ", out);
  EXPECT_EQ(out, ">  1%\n>  2%\n>  3%\n");
}

TEST(Prefix, TakesTheCarriageReturnOfALineThatEndsInBothOff) {
  std::string out;
  append_prefixed("a\r\n\r\n", "> ", out);
  EXPECT_EQ(out, "> a\n> \n");
}

TEST(Prefix, SetsAsideOnlyTheLinesWithOneOfTheTexts) {
  const std::vector<std::string> texts = {"loss", "acc"};
  std::string out;
  append_matching("loss 1\nnothing\nmy accuracy\n", "> ", texts, out);
  EXPECT_EQ(out, "> loss 1\n> my accuracy\n");
}

}  // namespace
}  // namespace ddprun
