#include "base/endpoint.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

namespace ddprun {
namespace {

using testing::HasSubstr;

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

// Each was accepted, and then written so that it could not be read again, or not as it was.
TEST(Endpoint, RefusesAHostThatDoesNotSurviveBeingWritten) {
  const std::vector<std::pair<std::string, std::string>> refused = {
      {"[[a]:1", "the host '[a' has a bracket in it; write HOST[:PORT]"},
      {"a]:1", "the host 'a]' has a bracket in it; write HOST[:PORT]"},
      {"fe80::1%a]", "the host 'fe80::1%a]' has a bracket in it; write HOST[:PORT]"},
      {"[fe80::1%]:1", "the address 'fe80::1%' has no interface after its '%'; add one"},
      {std::string("ab\0c:1", 6), "byte 3 of the host is the control character 0x00; leave it out"},
      {"ab\n:1", "byte 3 of the host is the control character 0x0a; leave it out"},
      {"\x7f:1", "byte 1 of the host is the control character 0x7f; leave it out"},
      {"\033[31m:1", "byte 1 of the host is the control character 0x1b; leave it out"}};
  for (const auto& [text, why] : refused) {
    const auto endpoint = Endpoint::parse(text, kDefaultPort);
    ASSERT_FALSE(endpoint) << text;
    EXPECT_THAT(endpoint.error().detail, HasSubstr(why)) << text;
  }
}

TEST(Endpoint, ReadsTheZoneOfAnAddress) {
  const auto endpoint = Endpoint::parse("[fe80::1%eth0]:80", kDefaultPort);
  ASSERT_TRUE(endpoint);
  EXPECT_EQ(*endpoint, (Endpoint{.host = "fe80::1%eth0", .port = 80}));
  EXPECT_EQ(endpoint->to_string(), "[fe80::1%eth0]:80");
}

TEST(Endpoint, KnowsTheHostsThatStandForAllAddresses) {
  EXPECT_TRUE(is_any("0.0.0.0"));
  EXPECT_TRUE(is_any("::"));
  EXPECT_FALSE(is_any("127.0.0.1"));
  EXPECT_FALSE(is_any("::1"));
}

}  // namespace
}  // namespace ddprun
