#include "trainer/core/injection.hpp"

#include <gtest/gtest.h>

#include <string>

namespace ddprun {
namespace {

Injection read(const std::string& text) {
  const auto injection = parse_injection(text);
  EXPECT_TRUE(injection) << injection.error().detail;
  return injection ? *injection : Injection();
}

std::string refusal(const std::string& text) {
  const auto injection = parse_injection(text);
  return injection ? "taken" : injection.error().detail;
}

TEST(Injection, IsForRankZeroOfTheFirstAttemptUnlessItSaysOtherwise) {
  const Injection kill = read("kill@50");
  EXPECT_EQ(
      kill, (Injection{.fault = Fault::kKill, .step = 50, .delay_ms = 0, .rank = 0, .attempt = 0}));
  EXPECT_TRUE(is_for(kill, 0, 0));
  EXPECT_FALSE(is_for(kill, 1, 0));
  EXPECT_FALSE(is_for(kill, 0, 1));
}

TEST(Injection, SelectsARankAndAnAttemptOrAll) {
  const Injection one = read("segv@1,attempt=2,rank=3");
  EXPECT_TRUE(is_for(one, 3, 2));
  EXPECT_FALSE(is_for(one, 3, 0));
  const Injection all = read("nan@1,rank=all,attempt=all");
  EXPECT_TRUE(is_for(all, 17, 5));
}

TEST(Injection, OnlySlownessAndAFullDiskLast) {
  EXPECT_FALSE(is_due(read("slow@3:20"), 2));
  EXPECT_TRUE(is_due(read("slow@3:20"), 4));
  EXPECT_TRUE(is_due(read("diskfull@3"), 4));
  EXPECT_TRUE(is_due(read("oom@3"), 3));
  EXPECT_FALSE(is_due(read("oom@3"), 4));
}

TEST(Injection, IsRefusedWithTheReason) {
  EXPECT_NE(refusal("explode@3").find("unknown fault 'explode'"), std::string::npos);
  EXPECT_NE(refusal("kill@0").find("'0' is not a step"), std::string::npos);
  EXPECT_NE(refusal("kill").find("'' is not a step"), std::string::npos);
  EXPECT_NE(refusal("slow@3").find("slow, and only slow"), std::string::npos);
  EXPECT_NE(refusal("kill@3:5").find("slow, and only slow"), std::string::npos);
  EXPECT_NE(refusal("slow@3:9999999").find("at most an hour"), std::string::npos);
  EXPECT_NE(refusal("kill@3,node=1").find("unknown selector 'node'"), std::string::npos);
  EXPECT_NE(refusal("kill@3,rank=-1").find("rank='-1' is neither"), std::string::npos);
}

}  // namespace
}  // namespace ddprun
