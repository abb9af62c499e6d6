#include "agent/core/listen_addresses.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ddprun {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

RendezvousPlan plan_for(const std::string& host) {
  RendezvousPlan plan;
  plan.endpoint = Endpoint{.host = host, .port = 29'400};
  return plan;
}

TEST(ListenAddressesTest, TheNodeAtTheEndpointListensWhereThatIs) {
  const ListenAddresses where = at_endpoint(plan_for("n0"), {"10.0.0.1", "fd00::1"});
  EXPECT_THAT(where.hosts, ElementsAre("10.0.0.1", "fd00::1"));
  EXPECT_TRUE(where.at_loopback);
  EXPECT_EQ(where.why_all, "");
}

// Debian's /etc/hosts says so of each machine's own name. The other nodes find it elsewhere.
TEST(ListenAddressesTest, ANameThatLeadsToTheLoopbackHereDoesNotSayWhereTheOthersCall) {
  const ListenAddresses where = at_endpoint(plan_for("n0"), {"127.0.1.1"});
  EXPECT_THAT(where.hosts, IsEmpty());
  EXPECT_EQ(where.why_all, "on this machine n0 is 127.0.1.1");
  EXPECT_THAT(at_endpoint(plan_for("n0"), {}).why_all, HasSubstr("n0 cannot be resolved yet"));
}

TEST(ListenAddressesTest, AnEndpointThatIsTheLoopbackIsOneMachines) {
  EXPECT_THAT(
      at_endpoint(plan_for("localhost"), {"::1", "127.0.0.1"}).hosts,
      ElementsAre("::1", "127.0.0.1"));
  EXPECT_THAT(at_endpoint(plan_for("127.0.0.1"), {"127.0.0.1"}).hosts, ElementsAre("127.0.0.1"));
}

TEST(ListenAddressesTest, TheLocalAddressIsListenedAtToo) {
  RendezvousPlan plan = plan_for("n0");
  plan.local_address = "10.1.0.1";
  EXPECT_THAT(at_endpoint(plan, {"10.0.0.1"}).hosts, ElementsAre("10.0.0.1", "10.1.0.1"));
  EXPECT_THAT(before_any_call(plan).hosts, ElementsAre("10.1.0.1"));
  plan.local_address = "10.0.0.1";
  EXPECT_THAT(at_endpoint(plan, {"10.0.0.1"}).hosts, ElementsAre("10.0.0.1"));
}

TEST(ListenAddressesTest, AnyOtherNodeListensWhereItCallsFrom) {
  const RendezvousPlan plan = plan_for("n0");
  EXPECT_THAT(before_any_call(plan).hosts, ElementsAre("127.0.0.1"));
  EXPECT_TRUE(follows_calls(plan));
}

TEST(ListenAddressesTest, WhatWasAskedForHolds) {
  RendezvousPlan plan = plan_for("n0");
  plan.bind = {.to = BindPlan::To::kAll, .address = ""};
  EXPECT_THAT(at_endpoint(plan, {"10.0.0.1"}).hosts, IsEmpty());
  EXPECT_EQ(at_endpoint(plan, {}).why_all, "");
  EXPECT_FALSE(follows_calls(plan));
  plan.bind = {.to = BindPlan::To::kAddress, .address = "10.2.0.1"};
  EXPECT_THAT(at_endpoint(plan, {"10.0.0.1"}).hosts, ElementsAre("10.2.0.1"));
  EXPECT_THAT(before_any_call(plan).hosts, ElementsAre("10.2.0.1"));
  EXPECT_FALSE(follows_calls(plan));
}

TEST(ListenAddressesTest, WhatWasAskedForMayMissTheEndpoint) {
  RendezvousPlan plan = plan_for("n0");
  plan.bind = {.to = BindPlan::To::kAddress, .address = "10.2.0.1"};
  EXPECT_THAT(at_endpoint(plan, {"10.0.0.1"}).missed, ElementsAre("10.0.0.1"));
  EXPECT_THAT(at_endpoint(plan, {"10.0.0.1", "10.2.0.1"}).missed, IsEmpty());
  EXPECT_THAT(at_endpoint(plan, {"127.0.0.1"}).missed, IsEmpty());
  EXPECT_THAT(at_endpoint(plan, {}).missed, IsEmpty());
  plan.bind = {.to = BindPlan::To::kAll, .address = ""};
  EXPECT_THAT(at_endpoint(plan, {"10.0.0.1"}).missed, IsEmpty());
}

}  // namespace
}  // namespace ddprun
