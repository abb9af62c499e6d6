#include "launcher/ctl/doctor/core/network_diagnosis.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <vector>

namespace ddprun {
namespace {

using namespace std::chrono_literals;
using testing::AllOf;
using testing::ElementsAre;
using testing::Field;
using testing::HasSubstr;
using testing::IsEmpty;

testing::Matcher<Finding> well(const std::string& seen) {
  return AllOf(Field(&Finding::seen, HasSubstr(seen)), Field(&Finding::remedy, IsEmpty()));
}

testing::Matcher<Finding> wrong(const std::string& seen, const std::string& remedy) {
  return AllOf(
      Field(&Finding::seen, HasSubstr(seen)),
      Field(&Finding::remedy, HasSubstr(remedy)),
      Field(&Finding::remedy, testing::Not(IsEmpty())));
}

const Interface kLoopback{
    .name = "lo",
    .is_up = true,
    .has_carrier = true,
    .is_loopback = true,
    .addresses = {"127.0.0.1", "::1"}};
const Interface kEthernet{
    .name = "eth0", .is_up = true, .has_carrier = true, .addresses = {"10.0.0.1"}};
const Interface kEleventh{
    .name = "eth01", .is_up = true, .has_carrier = true, .addresses = {"10.1.0.1"}};
const Interface kDown{.name = "ib0", .addresses = {"10.2.0.1"}};
const Interface kUnplugged{.name = "ib1", .is_up = true, .addresses = {"10.3.0.1"}};
const Interface kBare{.name = "ib2", .is_up = true, .has_carrier = true, .addresses = {}};
const std::vector<Interface> kAll = {kLoopback, kEthernet, kEleventh, kDown, kUnplugged, kBare};

Finding flag(const std::string& name) {
  return judge_interface(NamedBy::kFlag, name, kAll);
}

Finding nccl(const std::string& names) {
  return judge_interface(NamedBy::kNccl, names, kAll);
}

TEST(JudgeInterface, WantsTheNamedOneToBeThereUpAndWithAnAddress) {
  EXPECT_THAT(flag("eth0"), well("eth0 (10.0.0.1)"));
  EXPECT_THAT(
      flag("eht0"),
      wrong("no interface 'eht0' on this machine, only lo, eth0", "did you mean eth0?"));
  EXPECT_THAT(flag("wlan"), wrong("no interface 'wlan'", "give one of these"));
  EXPECT_THAT(flag("ib0"), wrong("ib0 is down", "ip link set ib0 up"));
  EXPECT_THAT(flag("ib1"), wrong("no carrier", "cable"));
  EXPECT_THAT(flag("ib2"), wrong("no address", "give it an address"));
}

TEST(JudgeInterface, TakesGloosListByExactNames) {
  EXPECT_THAT(judge_interface(NamedBy::kGloo, "eth0,eth01", kAll), well("eth0 (10.0.0.1), eth01"));
  EXPECT_THAT(
      judge_interface(NamedBy::kGloo, "eth0,eth", kAll), wrong("no interface 'eth'", "mean"));
}

TEST(JudgeInterface, TakesNcclsListByBeginnings) {
  EXPECT_EQ(nccl("eth0").seen, "eth0 (10.0.0.1), eth01 (10.1.0.1)");
  EXPECT_EQ(nccl("=eth0").seen, "eth0 (10.0.0.1)");
  EXPECT_EQ(nccl("^lo,eth01").seen, "eth0 (10.0.0.1)");
  EXPECT_EQ(nccl("^=eth01,lo").seen, "eth0 (10.0.0.1)");
  EXPECT_TRUE(nccl("eth0").is_well());
  EXPECT_THAT(nccl("ib"), wrong("none of lo, eth0, eth01, ib0", "unset"));
  EXPECT_THAT(nccl("=eth"), wrong("none of", "unset"));
}

TEST(JudgeRoute, TellsWhichIsChosenOfSeveral) {
  EXPECT_EQ(
      judge_route(std::vector{kLoopback, kEthernet}, "10.0.0.1", true).seen, "eth0 (10.0.0.1)");
  EXPECT_THAT(judge_route(kAll, "10.1.0.1", true), well("eth01 is used unless --local-addr"));
}

TEST(JudgeRoute, WantsAWayToOtherNodesOnly) {
  const std::vector alone = {kLoopback, kDown};
  EXPECT_THAT(judge_route(alone, "", false), well("only the loopback"));
  EXPECT_THAT(judge_route(alone, "", true), wrong("only the loopback", "set up an interface"));
  EXPECT_THAT(judge_route(kAll, "", false), well("no route"));
  EXPECT_THAT(judge_route(kAll, "", true), wrong("no route", "--exclude"));
}

TEST(JudgeHostName, MustNotBeTheLoopbackWhereThereAreOthers) {
  const Result<std::vector<std::string>> debian = std::vector<std::string>{"127.0.1.1"};
  EXPECT_THAT(judge_host_name("n0", debian, Others::kNo), well("127.0.1.1"));
  EXPECT_THAT(
      judge_host_name("n0", debian, Others::kYes),
      wrong("connect to themselves", "GLOO_SOCKET_IFNAME"));
  const Result<std::vector<std::string>> good = std::vector<std::string>{"127.0.1.1", "10.0.0.1"};
  EXPECT_THAT(judge_host_name("n0", good, Others::kYes), well("10.0.0.1"));
  EXPECT_THAT(judge_host_name("n0", good, Others::kNotKnown), well("10.0.0.1"));
}

TEST(JudgeHostName, IsAWarningWhereNobodyKnowsOfOthers) {
  const Result<std::vector<std::string>> debian = std::vector<std::string>{"127.0.1.1"};
  EXPECT_FALSE(judge_host_name("n0", debian, Others::kYes).is_well());
  const Finding finding = judge_host_name("n0", debian, Others::kNotKnown);
  EXPECT_THAT(finding, wrong("connect to themselves", "GLOO_SOCKET_IFNAME"));
  EXPECT_TRUE(finding.is_well());
}

TEST(JudgeHostName, MustBeKnownWhereThereAreOthers) {
  const Result<std::vector<std::string>> unknown = make_error(Errc::kInvalidArgument, "unknown");
  EXPECT_THAT(judge_host_name("n0", unknown, Others::kNo), well("unknown"));
  EXPECT_THAT(judge_host_name("n0", unknown, Others::kYes), wrong("unknown", "/etc/hosts"));
}

NodeConnectivity connected(const std::string& node, Duration ahead = {}, Duration doubt = {}) {
  return {.node = node, .error = {}, .was_heard = true, .ahead = ahead, .doubt = doubt};
}

NodeConnectivity unreached(const std::string& node, Errc code, bool was_heard = false) {
  return {.node = node, .error = make_error(code, "why; do"), .was_heard = was_heard};
}

Findings judge(const std::vector<NodeConnectivity>& results) {
  return judge_connectivity(results, 17'001);
}

TEST(JudgeConnectivity, TellsAllThatAreWellInOneLine) {
  EXPECT_EQ(
      judge({connected("n1"), connected("n2", 250ms), connected("n3", -500ms)}),
      (Findings{
          {.subject = "reach n[1-3]",
           .seen = "connected both ways on TCP port 17001",
           .remedy = ""},
          {.subject = "clock of n[1-3]",
           .seen = "at most 0.500 s from this node's",
           .remedy = ""}}));
}

TEST(JudgeConnectivity, TellsBothDirectionsApart) {
  NodeConnectivity deaf = connected("n1");
  deaf.was_heard = false;
  EXPECT_THAT(judge({deaf})[0], wrong("reached it, but it did not reach", "firewall"));
  EXPECT_THAT(
      judge({unreached("n1", Errc::kTimedOut, true)}),
      ElementsAre(wrong("why, though it reached this node", "firewall")));
  EXPECT_EQ(judge({unreached("n1", Errc::kTimedOut)})[0].seen, "why");
}

// The job's own port was called a program that has to be stopped.
TEST(JudgeConnectivity, ARunningJobIsReachedInPlaceOfADoctor) {
  NodeConnectivity leader = connected("n1");
  leader.job = "x";
  EXPECT_THAT(
      judge({leader}),
      ElementsAre(well("connected both ways on TCP port 17001, where job 'x' is running")));
  leader.was_heard = false;
  EXPECT_THAT(
      judge({leader})[0], wrong("it did not reach this node", "check that ddpctl runs there"));
}

TEST(JudgeConnectivity, WhatIsNotCheckedBesideARunningJobIsNoFault) {
  NodeConnectivity other = connected("n1");
  other.was_heard = false;
  other.can_be_heard = false;
  EXPECT_THAT(
      judge({other})[0],
      well("connected on TCP port 17001; whether it reaches this node was not checked, because a "
           "job has the port here"));
}

TEST(JudgeConnectivity, HasARemedyForEachCause) {
  EXPECT_THAT(judge({unreached("n1", Errc::kInvalidArgument)})[0], wrong("why", "/etc/hosts"));
  EXPECT_THAT(
      judge({unreached("n1", Errc::kProtocol)})[0],
      wrong("why", "stop the program that listens there"));
  EXPECT_THAT(judge({unreached("n1", Errc::kPeerLost)})[0], wrong("why", "which interface"));
}

TEST(JudgeConnectivity, HasOneLineForOneCause) {
  const auto findings =
      judge({unreached("n1", Errc::kTimedOut), connected("n2"), unreached("n3", Errc::kTimedOut)});
  std::vector<std::string> subjects;
  for (const Finding& finding : findings) {
    subjects.push_back(finding.subject);
  }
  EXPECT_THAT(subjects, testing::UnorderedElementsAre("reach n2", "reach n[1,3]", "clock of n2"));
}

TEST(JudgeConnectivity, NamesClocksThatAreMoreThanASecondApart) {
  EXPECT_THAT(judge({connected("n1", 1s), connected("n2", -1s)})[1], well("1.000 s"));
  EXPECT_THAT(
      judge({connected("n1", 5s), connected("n2"), connected("n3", -2500ms)})[1],
      wrong("that of n1 is 5.0 s ahead, that of n3 is 2.5 s behind", "chronyd"));
}

TEST(JudgeConnectivity, DoesNotTakeASlowAnswerForAWrongClock) {
  EXPECT_THAT(judge({connected("n1", 1500ms, 600ms)})[1], well("1.500 s"));
  EXPECT_THAT(judge({connected("n1", 1500ms, 400ms)})[1], wrong("1.5 s ahead", "chronyd"));
}

TEST(JudgeConnectivity, NamesAFewWrongClocksOfMany) {
  std::vector<NodeConnectivity> all;
  for (int node = 1; node <= 9; ++node) {
    all.push_back(connected("n" + std::to_string(node), 5s));
  }
  EXPECT_THAT(judge(all)[1], wrong("that of n4 is 5.0 s ahead and 5 others", "chronyd"));
}

TEST(Greeting, IsReadBackAsItWas) {
  const Greeting greeting{.step = "7.0", .node_id = 3, .clock_ns = 1'800'000'000'000'000'000};
  EXPECT_EQ(greeting.to_line(), "ddprun-doctor-1 7.0 3 1800000000000000000\n");
  const auto read = Greeting::parse(greeting.to_line());
  ASSERT_TRUE(read);
  EXPECT_EQ(*read, greeting);
}

TEST(Greeting, RefusesWhatNoDoctorSays) {
  for (const char* const line :
       {"",
        "\n",
        "HTTP/1.1 400\n",
        "ddprun-doctor-1 7.0 3 5",
        "ddprun-doctor-1 7.0 3\n",
        "ddprun-doctor-2 7.0 3 5\n",
        "ddprun-doctor-1 7.0 65536 5\n",
        "ddprun-doctor-1 7.0 -1 5\n",
        "ddprun-doctor-1 7.0 3 -5\n",
        "ddprun-doctor-1 7.0 3 9223372036854775807\n",
        "ddprun-doctor-1 7.0 3 99999999999999999999\n",
        "ddprun-doctor-1 7.0 3 5 6\n"}) {
    const auto read = Greeting::parse(line);
    ASSERT_FALSE(read) << line;
    EXPECT_TRUE(read.error().is(Errc::kProtocol));
  }
}

}  // namespace
}  // namespace ddprun
