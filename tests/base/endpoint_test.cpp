#include "base/endpoint.hpp"

#include <gtest/gtest.h>

namespace ddprun {
namespace {

constexpr std::uint16_t kDefaultPort = 29400;

TEST(Endpoint, TakesTheDefaultPortWhereNoneIsGiven) {
  const auto endpoint = Endpoint::parse("node1", kDefaultPort);
  ASSERT_TRUE(endpoint);
  EXPECT_EQ(*endpoint, (Endpoint{.host = "node1", .port = kDefaultPort}));
}

TEST(Endpoint, ReadsAPort) {
  const auto endpoint = Endpoint::parse("10.0.0.1:0", kDefaultPort);
  ASSERT_TRUE(endpoint);
  EXPECT_EQ(*endpoint, (Endpoint{.host = "10.0.0.1", .port = 0}));
}

TEST(Endpoint, ReadsIpv6WithAndWithoutBrackets) {
  const auto bare = Endpoint::parse("fe80::1", kDefaultPort);
  const auto bracketed = Endpoint::parse("[::1]:80", kDefaultPort);
  ASSERT_TRUE(bare);
  ASSERT_TRUE(bracketed);
  EXPECT_EQ(*bare, (Endpoint{.host = "fe80::1", .port = kDefaultPort}));
  EXPECT_EQ(*bracketed, (Endpoint{.host = "::1", .port = 80}));
  EXPECT_EQ(bracketed->to_string(), "[::1]:80");
}

TEST(Endpoint, RefusesWhatIsNotAnEndpoint) {
  for (const char* const text :
       {"",
        ":80",
        "[::1",
        "[::1]x",
        "h:",
        "h:65536",
        "h:-1",
        "h: 1",
        "a b",
        "::1:41020",
        "h1,h2:80"}) {
    const auto endpoint = Endpoint::parse(text, kDefaultPort);
    ASSERT_FALSE(endpoint) << text;
    EXPECT_TRUE(endpoint.error().is(Errc::kInvalidArgument)) << text;
  }
}

TEST(Endpoint, KnowsTheHostsThatStandForAllAddresses) {
  EXPECT_TRUE(is_any("0.0.0.0"));
  EXPECT_TRUE(is_any("::"));
  EXPECT_FALSE(is_any("127.0.0.1"));
  EXPECT_FALSE(is_any("::1"));
}

}  // namespace
}  // namespace ddprun
