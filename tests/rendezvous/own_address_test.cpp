#include "rendezvous/own_address.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace ddprun {
namespace {

using testing::HasSubstr;

std::string own(const std::string& host) {
  const auto address = own_address(host);
  if (!address) return "unknown";
  return address->value_or("of another machine");
}

TEST(OwnAddress, IsTheNumericOneOfThisMachine) {
  EXPECT_EQ(own("127.0.0.1"), "127.0.0.1");
  EXPECT_EQ(own("127.1"), "127.0.0.1");
  EXPECT_THAT(own("localhost"), testing::AnyOf("127.0.0.1", "::1"));
}

TEST(OwnAddress, IsNoneForAnotherMachine) {
  EXPECT_EQ(own("192.0.2.1"), "of another machine");  // reserved for documentation, RFC 5737
}

TEST(OwnAddress, TellsANameThatCannotBeResolvedFromAnotherMachine) {
  const auto unknown = own_address(std::string(300, 'a'));
  ASSERT_FALSE(unknown);
  EXPECT_TRUE(unknown.error().is(Errc::kNotFound));
  EXPECT_THAT(unknown.error().detail, HasSubstr("cannot be resolved"));
}

TEST(OwnEnds, AreTheAddressesThemselvesIfTheyAreOwn) {
  const auto number = [](const std::string& host) {
    return numeric_address({.host = host, .port = 0}).value();
  };
  EXPECT_EQ(
      own_ends({number("127.0.0.2"), number("127.0.0.2")}), std::vector<std::string>{"127.0.0.2"});
  // 192.0.2.1 is nobody's: the route's address, or none without a route.
  const std::string by_route = source_address({number("192.0.2.1")});
  EXPECT_EQ(
      own_ends({number("192.0.2.1")}),
      by_route.empty() ? std::vector<std::string>() : std::vector<std::string>{by_route});
}

TEST(InterfaceAddress, IsANumericOneOfThatInterface) {
  const auto address = interface_address("lo", Family::kIpv4);
  ASSERT_TRUE(address);
  EXPECT_EQ(*address, "127.0.0.1");
}

TEST(InterfaceAddress, NamesTheInterfacesThereAre) {
  const auto missing = interface_address("eth-none", Family::kIpv4);
  ASSERT_FALSE(missing);
  EXPECT_THAT(missing.error().detail, HasSubstr("there is no interface 'eth-none' here, only lo"));
}

}  // namespace
}  // namespace ddprun
