#include "agent/core/interface_choice.hpp"

#include <gtest/gtest.h>

namespace ddprun {
namespace {

const std::vector<Interface> kInterfaces = {
    {.name = "lo", .is_up = true, .is_loopback = true, .addresses = {"127.0.0.1", "::1"}},
    {.name = "eth0", .is_up = true, .addresses = {"10.0.0.1", "fd00::1"}},
    {.name = "ib0", .is_up = true, .addresses = {"10.8.0.1"}},
    {.name = "docker0", .is_up = true, .is_bridge = true, .addresses = {"172.17.0.1"}},
};

HostName n1(std::vector<std::string> addresses) {
  return {.name = "n1", .addresses = std::move(addresses)};
}

/// The chosen interface and the reason, for a node that reaches the leader from eth0.
std::string chosen(const HostName& host, const std::string& own_address = "10.0.0.1") {
  const auto choice = choose_interface(host, own_address, kInterfaces);
  return choice ? choice->name + ": " + choice->why : "none";
}

TEST(InterfaceChoice, LeavesAHostNameAloneThatServes) {
  EXPECT_EQ("none", chosen(n1({"10.0.0.1"})));
  EXPECT_EQ("none", chosen(n1({"fd00::1"})));
  EXPECT_EQ("none", chosen(n1({"10.8.0.1"}))) << "other nodes reach it by another interface";
}

TEST(InterfaceChoice, ReplacesALoopbackAddress) {
  EXPECT_EQ(
      "eth0: host name 'n1' resolves to loopback address 127.0.1.1", chosen(n1({"127.0.1.1"})));
  EXPECT_EQ("eth0: host name 'n1' resolves to loopback address ::1", chosen(n1({"::1"})));
  EXPECT_EQ(
      "ib0: host name 'n1' resolves to loopback address 127.0.1.1",
      chosen(n1({"127.0.1.1"}), "10.8.0.1"));
}

TEST(InterfaceChoice, ReplacesALinkLocalAddress) {
  EXPECT_EQ(
      "eth0: host name 'n1' resolves to link-local address fe80::1%eth0",
      chosen(n1({"fe80::1%eth0"})));
}

TEST(InterfaceChoice, ReplacesAnAddressOfABridgeUnlessItLeadsToTheLeader) {
  EXPECT_EQ(
      "eth0: host name 'n1' resolves to 172.17.0.1 of the bridge docker0",
      chosen(n1({"172.17.0.1"})));
  EXPECT_EQ("none", chosen(n1({"172.17.0.1"}), "172.17.0.1"));
}

TEST(InterfaceChoice, ReplacesANameThatLeadsNowhere) {
  const HostName unknown{
      .name = "n1",
      .addresses = make_error(Errc::kInvalidArgument, "host 'n1' cannot be resolved: no")};
  EXPECT_EQ("eth0: host 'n1' cannot be resolved: no", chosen(unknown));
  EXPECT_EQ(
      "eth0: host name 'n1' resolves to 10.9.9.9, not an address of this node",
      chosen(n1({"10.9.9.9"})));
}

// As Gloo does, which binds one after the other.
TEST(InterfaceChoice, CountsTheFirstAddressThatIsOurs) {
  EXPECT_EQ("none", chosen(n1({"10.9.9.9", "10.0.0.1", "127.0.1.1"})));
  EXPECT_EQ(
      "eth0: host name 'n1' resolves to loopback address 127.0.1.1",
      chosen(n1({"10.9.9.9", "127.0.1.1", "10.0.0.1"})));
}

TEST(InterfaceChoice, NeedsNoneOnOneMachine) {
  EXPECT_EQ("none", chosen(n1({"127.0.1.1"}), "127.0.0.1"));
  EXPECT_EQ("none", chosen(n1({"127.0.1.1"}), "127.0.0.5"));
  EXPECT_EQ("none", chosen(n1({"127.0.1.1"}), "")) << "the address is not known";
}

}  // namespace
}  // namespace ddprun
