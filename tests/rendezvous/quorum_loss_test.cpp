// What decides is told in tests/sim; here are the words.

#include "rendezvous/core/quorum_loss.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace ddprun {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

TEST(QuorumLoss, NamesNobodyWhereAllAreHere) {
  EXPECT_EQ(quorum_loss({.round = {"n0", "n1"}, .here = {"n1", "n0", "n2"}}), QuorumLoss());
  EXPECT_EQ(quorum_loss({}), QuorumLoss());
}

TEST(QuorumLoss, CountsTwoNodesOfOneHostAsTwo) {
  const auto loss = quorum_loss({.round = {"a", "a", "b"}, .here = {"a"}});
  EXPECT_THAT(loss.why, HasSubstr("a and b of the last round's 3 nodes are silent"));
}

TEST(QuorumLoss, OfManyNamesAsManyAsFitInALine) {
  QuorumLossFacts facts;
  for (int node = 0; node < 1'000; ++node)
    facts.round.push_back("n" + std::to_string(node));
  facts.here = {"n0"};
  EXPECT_THAT(
      quorum_loss(facts).why,
      HasSubstr("n1, n2, n3, n4, n5, n6, n7 and 992 more of the last round's 1000 nodes"));
}

TEST(QuorumLoss, ReadsTheHostsOfARound) {
  EXPECT_THAT(split_hosts("n0,n1"), ElementsAre("n0", "n1"));
  EXPECT_THAT(split_hosts("n0"), ElementsAre("n0"));
  EXPECT_THAT(split_hosts(""), IsEmpty());
}

}  // namespace
}  // namespace ddprun
