// tests/sim tests the decisions; this tests the messages.

#include "rendezvous/core/quorum_loss.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

namespace ddprun {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

using Hosts = std::vector<std::string>;

QuorumLossFacts facts_of(Hosts round, Hosts here, Hosts missing) {
  QuorumLossFacts facts;
  facts.round = std::move(round);
  facts.here = std::move(here);
  facts.missing = std::move(missing);
  return facts;
}

QuorumLoss loss_of(Hosts round, Hosts here) {
  return quorum_loss(facts_of(std::move(round), std::move(here), {}));
}

TEST(QuorumLoss, NamesNobodyWhereAllAreHere) {
  EXPECT_EQ(loss_of({"n0", "n1"}, {"n1", "n0", "n2"}), QuorumLoss());
  EXPECT_EQ(loss_of({}, {}), QuorumLoss());
}

// It was offered a round of an instance, and has seen none start.
TEST(QuorumLoss, CountsNoNodesOfARoundThatIsNotKnown) {
  EXPECT_EQ(
      quorum_loss(facts_of({}, {"n1"}, {"n0"})).why,
      "n0 is missing and may still run, so n1 cannot continue without it");
}

TEST(QuorumLoss, CountsTwoNodesOfOneHostAsTwo) {
  EXPECT_THAT(
      loss_of({"a", "a", "b"}, {"a"}).why,
      HasSubstr("a and b of the last round's 3 nodes are missing"));
}

TEST(QuorumLoss, OfManyNamesAsManyAsFitInALine) {
  std::vector<std::string> round;
  round.reserve(1'000);
  for (int node = 0; node < 1'000; ++node)
    round.push_back("n" + std::to_string(node));
  EXPECT_THAT(
      loss_of(round, {"n0"}).why,
      HasSubstr("n1, n2, n3, n4, n5, n6, n7 and 992 more of the last round's 1000 nodes"));
}

TEST(QuorumLoss, ReadsTheHostsOfARound) {
  EXPECT_THAT(split_hosts("n0,n1"), ElementsAre("n0", "n1"));
  EXPECT_THAT(split_hosts("n0"), ElementsAre("n0"));
  EXPECT_THAT(split_hosts(""), IsEmpty());
}

TEST(QuorumLoss, TellsThoseThatAreBackFromThoseThatRan) {
  QuorumLossFacts facts = facts_of({"n0", "n1", "n2"}, {"n2"}, {"n0", "n1"});
  facts.back = {"n0", "n1"};
  EXPECT_EQ(
      quorum_loss(facts).why,
      "n0 and n1 of the last round's 3 nodes are missing and may still run (what was started on n0 "
      "and n1 since does not know of it), so n2 cannot continue without them");
}

TEST(QuorumLoss, DoesNotSayOfANodeThatIsProvedDeadThatItMayStillRun) {
  QuorumLossFacts facts = facts_of({"n0", "n1", "n2"}, {"n2"}, {"n0", "n1"});
  facts.ended = {"n0"};
  facts.ends_by_reset = true;
  const QuorumLoss loss = quorum_loss(facts);
  EXPECT_EQ(
      loss.why,
      "n1 of the last round's 3 nodes is missing and may still run, so n2 cannot continue without "
      "it");
  EXPECT_THAT(loss.ends, HasSubstr("on the machine of n1, under"));
  facts.ended = {"n0", "n1"};  // proved too late
  EXPECT_THAT(
      quorum_loss(facts).why, HasSubstr("n0 and n1 of the last round's 3 nodes are missing"));
}

TEST(QuorumLoss, SaysThatAReplacementMayComeByAnyAddress) {
  QuorumLossFacts facts = facts_of({"n0", "n1"}, {"n1"}, {"n0"});
  facts.ends_by_reset = true;
  facts.ends_by_replacement = true;
  facts.trusts_replacement = true;
  EXPECT_EQ(quorum_loss(facts).ends, "it is heard again, or ddprun starts in place of n0");
}

TEST(QuorumLoss, AFenceThatDoesNotAnswerIsWhatIsWaitedFor) {
  QuorumLossFacts facts = facts_of({"n0", "n1"}, {"n1"}, {"n0"});
  facts.ends_by_reset = true;
  facts.waits_for_fence = true;
  const QuorumLoss loss = quorum_loss(facts);
  EXPECT_EQ(
      loss.why,
      "n0 of the last round's 2 nodes is missing and may still run, so n1 cannot continue without "
      "it before the fence is claimed in --fence-dir, which fails so far");
  EXPECT_EQ(loss.ends, "it is heard again, or the fence can be claimed");
}

}  // namespace
}  // namespace ddprun
